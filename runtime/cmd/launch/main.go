// Command launch is the entry point of the image that functions run in: it opens
// the function's ports and replaces itself with the function's program. A
// connection that comes while the program starts waits for it then, and is not
// refused; the kubelet's first question for readiness is one, and it asks again
// only a second later. It owns the ways in which a program arrives, and the words
// for when it does not; it refuses to know what the program does.
//
//	launch [program [argument...]]
//
// The program is /function/server unless named, and a file, unless the
// environment names a binary that a build service has:
//
//	FUNCTION_BUILD_SERVICE      where it answers, as https://goless-build.goless-system.svc:8443
//	FUNCTION_BINARY             key of the binary
//	FUNCTION_BINARY_CAPABILITY  what entitles to it
//	FUNCTION_BINARY_PUBLIC_KEY  Ed25519 key of the service, raw base64 as in URLs
//
// Then launch waits until the service has it, checks it, and executes it from
// memory. While the service is out of reach it waits on, tells its log why, and
// answers the kubelet's probes: alive, not ready. The program is the same but in
// this: it does not see these four variables, its file has no name (os.Executable is
// of no use, /proc/self/exe can be executed), and it takes as much of the
// container's memory as it is long.
//
// The process keeps its id, so signals reach the program; launch is gone from
// memory. If it cannot, it exits with the codes of a shell: 127 if the program is
// missing, 126 if it cannot be executed, 143 if SIGTERM came first; and with 125
// if the binary could not be had. What went wrong is on standard error and in the
// container's termination message.
package main

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"os/signal"
	"strconv"
	"syscall"
)

const (
	exitNoBinary    = 125
	exitNoExecution = 126
	exitNoProgram   = 127
	exitTerminated  = 128 + int(syscall.SIGTERM) // 0 would say that the function had ended well
)

// terminationLog is where the kubelet looks for the last words of a container.
// It is there in pods and nowhere else.
var terminationLog = "/dev/termination-log"

func main() {
	program := []string{"/function/server"}
	if len(os.Args) > 1 {
		program = os.Args[1:]
	}
	open("SERVER")
	message, code := launch(program, open("ADMIN"))
	leave(message)
	os.Exit(code)
}

// launch returns only if it could not execute the program: what to tell, and the
// exit code. The admin port may be nil.
func launch(program []string, admin *net.TCPListener) (message string, code int) {
	b, err := binaryFromEnv()
	switch {
	case err != nil:
		return err.Error(), exitNoBinary
	case b == nil:
		return explain(program[0], syscall.Exec(program[0], program, os.Environ()))
	}
	// What Go does by itself is to exit with 2, as the first process of a container,
	// and to say nothing.
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	return b.execute(ctx, program, admin)
}

// open opens the port that a variable names, and leaves it to the program. It
// returns nil where it cannot: the program says why it cannot either.
func open(name string) *net.TCPListener {
	variable := name + "_LISTENER"
	_ = os.Unsetenv(variable) // who runs a function may set variables, and knows no descriptor
	port := os.Getenv(name + "_PORT")
	if port == "" {
		return nil
	}
	listener, err := net.Listen("tcp", ":"+port)
	if err != nil {
		return nil
	}
	own := listener.(*net.TCPListener)
	if fd, err := inheritable(own); err == nil {
		_ = os.Setenv(variable, strconv.Itoa(fd)) // neither name nor value can be wrong
	}
	return own
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

// explain returns what to tell and the exit code, given why the program could
// not be executed.
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

// leave writes the last words, of which the kubelet takes 4096 bytes.
func leave(message string) {
	message = "launch: " + message[:min(len(message), 4000)] + "\n"
	_, _ = os.Stderr.WriteString(message)
	if file, err := os.OpenFile(terminationLog, os.O_WRONLY|os.O_TRUNC, 0); err == nil {
		_, _ = file.WriteString(message) // there is nobody left to tell
	}
}
