// Command launch is the entry point of the image that functions run in. It opens the ports of the
// function and replaces itself with the program of the function. While the program starts, new
// connections wait instead of being refused. Otherwise the first readiness probe would fail, and
// the kubelet would repeat it only a second later.
//
//	launch [program [argument...]]
//	launch --version
//
// The program is a file, by default /function/server. If the environment names a binary of a
// build service, launch runs that binary instead:
//
//	FUNCTION_BUILD_SERVICE      URL of the build service, such as https://goless-build.goless-system.svc:8443
//	FUNCTION_BINARY             key of the binary
//	FUNCTION_BINARY_CAPABILITY  token that authorizes the download of the binary
//	FUNCTION_BINARY_PUBLIC_KEY  Ed25519 public key of the build service, in raw URL-safe base64
//
// launch removes these variables from the environment of the program.
//
// launch waits until the build service has the binary, verifies its signature, and executes it
// from memory. While launch waits, it logs the reason and answers the probes of the kubelet: the
// container is alive but not ready. A program that is executed from memory differs from a program
// in a file:
//
//   - os.Executable does not return a usable path; /proc/self/exe can be executed.
//   - Its file counts towards the memory of the container.
//
// The process ID does not change, so signals reach the program. If launch cannot execute the
// program, the exit code is
//
//	125  there is no binary
//	126  the program cannot be executed
//	127  the program does not exist
//	143  SIGTERM or SIGINT arrived first
//
// and the reason is written to standard error and to the termination message of the container.
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
	exitTerminated  = 128 + int(syscall.SIGTERM) // 0 would mean that the function has finished successfully
)

// terminationLog is the file of the container's termination message. It exists only in pods.
var terminationLog = "/dev/termination-log"

// The version and commit of a release, set by the linker.
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
	_ = os.Setenv("GOLESS_VERSION", version) // for a metric; fails only for an invalid name or value
	openPort("SERVER")
	message, code := launch(program, openPort("ADMIN"))
	report(message)
	os.Exit(code)
}

// launch executes the program. It returns only if that fails, with a message and the exit code.
// admin may be nil.
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

// signalContext returns a context that is cancelled by SIGTERM or SIGINT, so that launch can
// report what it was waiting for.
//
// release stops the handling of signals. When it returns, the context is cancelled if a signal
// arrived before. A later signal ends the process, with exit code 2 if it is the first process
// of a container. So no signal is lost until the program is executed. From then on, the kernel
// drops signals to the first process of a container until the Go runtime of the program is
// initialized. A signal mask would keep them, but the program and its children would inherit
// it.
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

// openPort listens on the port in the variable NAME_PORT, and passes the listener to the
// program in NAME_LISTENER. It returns nil if it cannot listen. The program then fails as well
// and reports the reason.
func openPort(name string) *net.TCPListener {
	variable := name + "_LISTENER"
	_ = os.Unsetenv(variable) // a user may have set it
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
		_ = os.Setenv(variable, strconv.Itoa(fd)) // fails only for an invalid name or value
	}
	return tcp
}

// inheritable returns a file descriptor that stays open across exec.
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

// explain returns the message and the exit code for the error of executing the program.
func explain(program string, err error) (message string, code int) {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return program + " does not exist: the build did not write it, see its log", exitNoProgram
	case errors.Is(err, fs.ErrPermission):
		return program + " is not an executable file, or its volume forbids execution (noexec)", exitNoExecution
	default:
		return "cannot execute " + program + ": " + err.Error(), exitNoExecution
	}
}

// report writes the termination message, of which the kubelet reads at most 4096 bytes.
func report(message string) {
	message = "launch: " + message[:min(len(message), 4000)] + "\n"
	_, _ = os.Stderr.WriteString(message)
	if file, err := os.OpenFile(terminationLog, os.O_WRONLY|os.O_TRUNC, 0); err == nil {
		_, _ = file.WriteString(message) // a write error cannot be reported
	}
}
