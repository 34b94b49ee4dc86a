// Package sandbox runs a command under limits. The command can use only so much
// memory and disk space, and where the kernel has Landlock, it can reach only the
// files and the network ports that its Policy names. When its context ends or a
// limit is exceeded, it is killed together with every process that it has started,
// and when it ends by itself, so is every process that it has left.
//
// What a command has written is not trusted, because a bug in the compiler may let the
// author of a source run code in it. Therefore its results are opened with
// OpenResult, from directories that no other command writes to.
//
// A process can set such limits only for itself. Therefore Run starts the current
// program again, under the name builder-sandbox, and that process limits itself
// before it executes the command. Every program that calls Run, tests included,
// has to call Enter first thing in main.
//
// On Windows a command has no limits, and reaches what its user does: who builds there
// is a developer, with the go command of the machine.
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

// name is the argv[0] by which Enter recognizes a process that is to become a
// confined command.
const name = "builder-sandbox"

// A Policy says what a command may use and reach.
type Policy struct {
	// Read and Write are directories that the command can read, or read and
	// write, with all that is below them. To Write it can add regular files and
	// directories alone: no links, FIFOs, sockets or devices. Files are single
	// files that it can read, and WriteFiles single files that it can read and
	// write.
	Read, Write, Files, WriteFiles []string

	// Removes lets the command also remove and rename what is below Write. Without it the
	// Quota measures all that takes space: a file that was removed while it is open takes
	// space, too, and is in no directory.
	Removes bool

	// Ports are the TCP ports to which it can connect, on any host.
	Ports []uint16

	// Open leaves the file system and the network alone: the fields above have no
	// effect.
	Open bool

	// Memory limits what each process can allocate and, on Linux, what all of
	// them use together, in bytes. 0 is no limit.
	Memory uint64
}

// A Mode is something that a program does confined by itself, in the place of
// another command.
type Mode func(stdin io.Reader, stdout io.Writer) error

// Enter turns this process into a confined command if Run has started it to be
// one, and never returns then. Otherwise it does nothing. The modes are what
// Command.Args may name in the place of the path of a command.
func Enter(modes map[string]Mode) {
	if filepath.Base(os.Args[0]) != name {
		return
	}
	err := become(os.Args[1], os.Args[2:], modes)
	if exit, ok := errors.AsType[*exec.ExitError](err); ok { // what was executed has said why
		os.Exit(exit.ExitCode())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	os.Exit(0)
}

// become applies the encoded policy to this process and replaces it with command,
// or executes the mode that command names.
func become(policy string, command []string, modes map[string]Mode) error {
	var p Policy
	if err := json.Unmarshal([]byte(policy), &p); err != nil {
		return err
	}
	if err := p.limit(); err != nil {
		return err
	}
	if err := p.restrict(); err != nil {
		return err
	}
	if mode, ok := modes[command[0]]; ok {
		return mode(os.Stdin, os.Stdout)
	}
	return execute(command)
}

// args returns the arguments, argv[0] included, with which this program starts
// itself to become command.
func (p Policy) args(command ...string) []string {
	encoded, err := json.Marshal(p)
	if err != nil {
		panic(err) // a Policy holds nothing that JSON cannot encode
	}
	return append([]string{name, string(encoded)}, command...)
}
