// Command launch is the entry point of the image that functions run in. It opens the
// ports of the function and replaces itself with the program of the function. A
// connection that comes while the program starts is not refused but waits. The first
// readiness probe is one, and the kubelet would repeat it only a second later.
//
//	launch [program [argument...]]
//	launch --version
//
// The program is /function/server unless named, and a file, unless the
// environment names a binary that a build service has:
//
//	FUNCTION_BUILD_SERVICE      where it answers, as https://goless-build.goless-system.svc:8443
//	FUNCTION_BINARY             key of the binary
//	FUNCTION_BINARY_CAPABILITY  what entitles to it
//	FUNCTION_BINARY_PUBLIC_KEY  Ed25519 key of the service, raw base64 as in URLs
//
// Then launch waits until the service has the binary, verifies its signature, and
// executes it from memory. While it waits it logs why, and answers the probes of the
// kubelet: the container is alive and not ready. For the program there are three
// differences: it does not see these four variables, its file has no name (os.Executable
// is of no use, /proc/self/exe can be executed), and the file counts as memory of the
// container.
//
// The process keeps its ID, so signals reach the program. If launch cannot execute it,
// it exits with the codes of a shell: 127 if the program is missing, 126 if it cannot be
// executed, 143 if SIGTERM came first; and with 125 if there is no binary. The reason is
// on standard error and in the termination message of the container.
package main

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"sync"
	"syscall"
)

const (
	exitNoBinary    = 125
	exitNoExecution = 126
	exitNoProgram   = 127
	exitTerminated  = 128 + int(syscall.SIGTERM) // 0 would say that the function had ended well
)

// terminationLog is the file with the termination message of a container. It exists only
// in pods.
var terminationLog = "/dev/termination-log"

// The version and commit of a release. The linker sets them.
var version, commit = "devel", "unknown"

func main() {
	if len(os.Args) == 2 && os.Args[1] == "--version" {
		_, _ = os.Stdout.WriteString("launch " + version + " (commit " + commit + ", " + runtime.Version() + ")\n")
		return
	}
	program := []string{"/function/server"}
	if len(os.Args) > 1 {
		program = os.Args[1:]
	}
	_ = os.Setenv("GOLESS_VERSION", version) // for a metric; the name and the value are valid
	openPort("SERVER")
	message, code := launch(program, openPort("ADMIN"))
	report(message)
	os.Exit(code)
}

// launch executes the program. It returns only if it could not, with a message and the
// exit code. The listener of the admin port may be nil.
func launch(program []string, admin *net.TCPListener) (message string, code int) {
	b, err := binaryFromEnv()
	switch {
	case err != nil:
		return err.Error(), exitNoBinary
	case b == nil:
		return explain(program[0], syscall.Exec(program[0], program, os.Environ()))
	}
	return b.execute(program, admin)
}

// signalContext returns a context that ends with SIGTERM or SIGINT, so that launch can
// report what it has waited for. When release returns, the context has ended if a signal
// came before, and a later signal ends the process, with the exit code 2 if it is the
// first one of a container. So none is lost until the program is executed. From then on
// the kernel drops signals for the first process of a container until the Go runtime of
// the program is initialized. A signal mask would keep them, but the program and its
// children would inherit it.
func signalContext() (ctx context.Context, release func()) {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	var receiving sync.WaitGroup
	receiving.Go(func() {
		for range signals {
			cancel()
		}
	})
	return ctx, func() {
		signal.Stop(signals)
		close(signals)
		receiving.Wait()
	}
}

// openPort opens the port in the variable NAME_PORT, and has the program inherit it by
// NAME_LISTENER. It returns nil if it cannot. The program then fails, too, and says why.
func openPort(name string) *net.TCPListener {
	variable := name + "_LISTENER"
	_ = os.Unsetenv(variable) // the user of a function may have set it
	port := os.Getenv(name + "_PORT")
	if port == "" {
		return nil
	}
	listener, err := net.Listen("tcp", ":"+port)
	if err != nil {
		return nil
	}
	tcp := listener.(*net.TCPListener)
	if fd, err := inheritable(tcp); err == nil {
		_ = os.Setenv(variable, strconv.Itoa(fd)) // the name and the value are valid
	}
	return tcp
}

// inheritable returns a file descriptor that outlives an exec.
func inheritable(listener *net.TCPListener) (fd int, err error) {
	raw, err := listener.SyscallConn()
	if err != nil {
		return 0, err
	}
	var failed error
	err = raw.Control(func(own uintptr) {
		fd, failed = syscall.Dup(int(own)) // the copy has no close-on-exec
	})
	return fd, errors.Join(err, failed)
}

// explain returns the message and the exit code for a program that could not be executed
// because of err.
func explain(program string, err error) (message string, code int) {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return program + " does not exist: the build that should have written it did not, see its log", exitNoProgram
	case errors.Is(err, fs.ErrPermission):
		return program + " is not an executable file, or its volume forbids execution (noexec)", exitNoExecution
	default:
		return "cannot execute " + program + ": " + err.Error(), exitNoExecution
	}
}

// report writes the termination message, of which the kubelet reads 4096 bytes.
func report(message string) {
	message = "launch: " + message[:min(len(message), 4000)] + "\n"
	_, _ = os.Stderr.WriteString(message)
	if file, err := os.OpenFile(terminationLog, os.O_WRONLY|os.O_TRUNC, 0); err == nil {
		_, _ = file.WriteString(message) // there is no other place for an error
	}
}
