package devserver

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"runtime"
)

// end asks a program to exit. On Windows, which cannot do that, it kills the program.
func end(p *os.Process) error {
	if runtime.GOOS == "windows" {
		return p.Kill()
	}
	return p.Signal(os.Interrupt)
}

// passListeners makes a program that is about to start serve the listeners. release must be called
// when the program has ended or fails to start. On Windows a process cannot inherit a listener, so
// the program itself opens the ports that its environment names.
func (s *Server) passListeners(cmd *exec.Cmd) (release func(), err error) {
	if runtime.GOOS == "windows" {
		_ = errors.Join(s.function.Close(), s.admin.Close()) // an earlier program may have used them
		return func() {}, nil
	}
	function, err := s.function.File()
	if err != nil {
		return nil, err
	}
	admin, err := s.admin.File()
	if err != nil {
		return nil, errors.Join(err, function.Close())
	}
	cmd.ExtraFiles = []*os.File{function, admin} // descriptors 3 and 4
	cmd.Env = append(cmd.Env, "SERVER_LISTENER=3", "ADMIN_LISTENER=4")
	return func() { _ = errors.Join(function.Close(), admin.Close()) }, nil // closes copies
}

// copyListener returns a listener on the same port that can be closed separately. On Windows it
// reopens the port, which an earlier program may have used.
func copyListener(l *net.TCPListener) (net.Listener, error) {
	if runtime.GOOS == "windows" {
		_ = l.Close()
		return new(net.ListenConfig).Listen(context.Background(), "tcp", l.Addr().String())
	}
	file, err := l.File()
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // FileListener has copied it
	return net.FileListener(file)
}
