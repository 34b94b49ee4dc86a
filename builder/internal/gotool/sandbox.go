package gotool

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/landlock-lsm/go-landlock/landlock"
	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"

	"goless.io/builder/internal/vet"
)

// sandboxName is the name, argv[0], under which the builder starts itself to
// become a confined go command. Limits are set by a process for itself, so they
// need one between the builder, which is to stay free, and the go command.
const sandboxName = "builder-sandbox"

// MaxFileSize is the size in bytes above which no file of a build grows, the
// binary included.
const MaxFileSize = 128 << 20

// A sandbox says what is left to a command. How many processes it starts is left
// to the container: the kernel counts them by user, and pods share one.
type sandbox struct {
	// Read and Write are files and directories, unless Open.
	Read, Write []string

	// Open leaves the file system and the network alone.
	Open bool

	// Memory bounds what each process can allocate, and, on Linux, what all of
	// them use together, in bytes, unless it is 0.
	Memory uint64
}

// modes are what the builder itself does in the sandbox, by the name that takes
// the place of a command's path.
var modes = map[string]func(stdin io.Reader, stdout io.Writer) error{
	vetMode:    vet.Serve,
	directMode: runAll,
}

// EnterSandbox turns this process into a confined command when it was started to
// be one, and otherwise does nothing. It must be the first that main calls.
func EnterSandbox() {
	if filepath.Base(os.Args[0]) != sandboxName {
		return
	}
	err := enter(os.Args[1], os.Args[2:])
	if exit, ok := errors.AsType[*exec.ExitError](err); ok { // what was executed has said why
		os.Exit(exit.ExitCode())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	os.Exit(0)
}

// enter confines this process and replaces it with command, or does what the
// mode in its place does.
func enter(encoded string, command []string) error {
	var box sandbox
	if err := json.Unmarshal([]byte(encoded), &box); err != nil {
		return err
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: MaxFileSize, Max: MaxFileSize}); err != nil {
		return fmt.Errorf("limiting the size of files: %w", err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_CORE, &syscall.Rlimit{}); err != nil {
		return fmt.Errorf("limiting core dumps: %w", err)
	}
	if box.Memory > 0 {
		if err := syscall.Setrlimit(syscall.RLIMIT_DATA, &syscall.Rlimit{Cur: box.Memory, Max: box.Memory}); err != nil {
			return fmt.Errorf("limiting memory: %w", err)
		}
	}
	if err := box.confine(); err != nil {
		return fmt.Errorf("landlock: %w", err)
	}
	if mode, ok := modes[command[0]]; ok {
		return mode(os.Stdin, os.Stdout)
	}
	err := syscall.Exec(command[0], command, os.Environ())
	return fmt.Errorf("executing %s: %w", command[0], err)
}

// confine takes away all files but the named ones, and the network, as far as
// the kernel can.
func (box sandbox) confine() error {
	if box.Open || !Confines() {
		return nil
	}
	return landlock.V10.BestEffort().Restrict(
		landlock.RODirs(box.Read...),
		landlock.RWDirs(box.Write...),
		landlock.RWFiles(os.DevNull),
	)
}

// Confines reports whether the kernel can keep a compiler from files and from the
// network.
func Confines() bool {
	version, err := ll.LandlockGetABIVersion()
	return err == nil && version > 0
}

// args returns the arguments, the name included, by which the builder starts
// itself as command in the sandbox.
func (box sandbox) args(command ...string) []string {
	encoded, err := json.Marshal(box)
	if err != nil {
		panic(err) // strings and a bool can be encoded
	}
	return append([]string{sandboxName, string(encoded)}, command...)
}
