// Package sandbox runs commands with limits:
//
//   - A command can use only a limited amount of memory and disk space.
//   - If the kernel has Landlock, a command can access only the files in its Policy. Since version
//     4 of Landlock's ABI (Linux 6.7), it can make TCP connections only to the ports in its Policy;
//     since version 10, it can send UDP only to DNS. DNS is allowed only if the Policy contains
//     ports.
//   - When its context ends or it exceeds a limit, it is killed with all processes that it has
//     started. On Linux, its remaining processes are killed when it exits.
//
// The output of a command is untrusted, because a bug in the compiler may let the author of a
// source run code in the compiler. The results of a command are therefore opened with OpenResult,
// from directories that no other command writes to.
//
// A process can set such limits only for itself. Run therefore starts the current program again
// under the name builder-sandbox, and that process limits itself before it executes the command.
// Every program that calls Run, including tests, must call Enter first in main.
//
// Landlock, seccomp and the limit of the memory that all processes of a command use together exist
// only on Linux. For builds on the machines of developers, Policy.Open disables Landlock and
// seccomp. On Windows, a process cannot limit itself, so the limits of its memory and of the size
// of its files do not exist either. Only developers use the builder on macOS and Windows.
package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
)

// name is the argv[0] by which Enter recognizes a process that has to become a confined command.
const name = "builder-sandbox"

// A Policy defines what a command may use and access.
type Policy struct {
	// Read and Write are directories in which the command can read, or read and write, all files.
	// In Write it can create only regular files and directories: no links, FIFOs, sockets or
	// devices. Files are single files that it can read, and WriteFiles single files that it can
	// read and write.
	Read, Write, Files, WriteFiles []string

	// Removes allows the command to remove and rename files in Write. With it, the Quota misses
	// files that are removed while they are open: they use space but are in no directory.
	Removes bool

	// Ports are the TCP ports to which it can connect, on any host. If Ports is not empty, DNS (TCP
	// and UDP port 53) is allowed too.
	Ports []uint16

	// Open disables Landlock and seccomp: all fields above are ignored, and processes are not
	// restricted. Memory still applies.
	Open bool

	// Memory limits what each process can allocate and, on Linux, what all processes use together,
	// in bytes. 0 means no limit.
	Memory uint64
}

// A Mode is a function that a confined process runs instead of another command.
type Mode func(stdin io.Reader, stdout io.Writer) error

// Enter does nothing unless Run started this process as a confined command. In that case, Enter
// executes the command and does not return. modes contains the names that Command.Args may contain
// instead of the path of a command.
func Enter(modes map[string]Mode) {
	if filepath.Base(os.Args[0]) != name {
		return
	}
	err := become(os.Args[1], os.Args[2:], modes)
	if exit, ok := errors.AsType[*exec.ExitError](err); ok { // the executed command has reported the reason
		os.Exit(exit.ExitCode())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	os.Exit(0)
}

// become applies the encoded policy to this process. It then replaces the process with command, or
// runs the mode that command names.
func become(policy string, command []string, modes map[string]Mode) error {
	var p Policy
	if err := json.Unmarshal([]byte(policy), &p); err != nil {
		return err
	}
	if err := p.restrict(); err != nil {
		return err
	}
	// Last: a process with the race detector exceeds the memory limit with its next allocation.
	if err := p.limit(); err != nil {
		return err
	}
	if mode, ok := modes[command[0]]; ok {
		return mode(os.Stdin, os.Stdout)
	}
	return execute(command)
}

// args returns the arguments, including argv[0], with which this program starts itself to become
// command.
func (p Policy) args(command ...string) []string {
	encoded, err := json.Marshal(p)
	if err != nil {
		panic(err) // a Policy contains nothing that JSON cannot encode
	}
	return append([]string{name, string(encoded)}, command...)
}
