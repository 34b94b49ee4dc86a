// Command launch is the entry point of the image that functions run in: it
// replaces itself with the function's program. It owns the words for when that
// program is missing, and refuses to know what the program does.
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
	"os"
	"syscall"
)

func main() {
	program := []string{"/function/server"}
	if len(os.Args) > 1 {
		program = os.Args[1:]
	}
	err := syscall.Exec(program[0], program, os.Environ())
	message, code := explain(program[0], err)
	_, _ = os.Stderr.WriteString("launch: " + message + "\n")
	os.Exit(code)
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
