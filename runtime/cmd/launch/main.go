// Command launch is the entry point of the image that functions run in: it opens
// the function's ports and replaces itself with the function's program. A
// connection that comes while the program starts waits for it then, and is not
// refused; the kubelet's first question for readiness is one, and it asks again
// only a second later. It owns the words for when the program is missing, and
// refuses to know what the program does.
//
//	launch [program [argument...]]
//
// The program is /function/server unless named. The process keeps its id, so
// signals reach the program; launch is gone from memory. If it cannot, it exits
// with the codes of a shell: 127 if the program is missing, 126 otherwise.
package main

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"strconv"
	"syscall"
)

func main() {
	program := []string{"/function/server"}
	if len(os.Args) > 1 {
		program = os.Args[1:]
	}
	for _, name := range []string{"SERVER", "ADMIN"} {
		variable := name + "_LISTENER"
		_ = os.Unsetenv(variable) // who runs a function may set variables, and knows no descriptor
		if fd, err := listen(os.Getenv(name + "_PORT")); err == nil {
			_ = os.Setenv(variable, strconv.Itoa(fd)) // neither name nor value can be wrong
		}
	}
	err := syscall.Exec(program[0], program, os.Environ())
	message, code := explain(program[0], err)
	_, _ = os.Stderr.WriteString("launch: " + message + "\n")
	os.Exit(code)
}

// listen opens a port and returns a file descriptor of it that outlives an exec.
// What it cannot open is left to the program, which says why it cannot either.
func listen(port string) (fd int, err error) {
	if port == "" {
		return 0, errors.New("no port")
	}
	listener, err := net.Listen("tcp", ":"+port)
	if err != nil {
		return 0, err
	}
	file, err := listener.(*net.TCPListener).File()
	if err != nil {
		return 0, err
	}
	return syscall.Dup(int(file.Fd())) // the copy has no close-on-exec
}

// explain returns what to tell and the exit code, given why the program could
// not be executed.
func explain(program string, err error) (message string, code int) {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return program + " does not exist: the build that should have written it did not, see its log", 127
	case errors.Is(err, fs.ErrPermission):
		return program + " is not an executable file, or its volume forbids execution (noexec)", 126
	default:
		return "cannot execute " + program + ": " + err.Error(), 126
	}
}
