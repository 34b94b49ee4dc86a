package devserver

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"runtime"
)

// end asks a program to end. On Windows there is no way to ask.
func end(p *os.Process) error {
	if runtime.GOOS == "windows" {
		return p.Kill()
	}
	return p.Signal(os.Interrupt)
}

// passListeners has a program that is about to start serve what comes to the listeners. release has
// to be called when it has ended, or does not start. On Windows no process can inherit a
// listener: there the program opens the ports itself, which its environment names.
func (s *Server) passListeners(cmd *exec.Cmd) (release func(), err error) {
	if runtime.GOOS == "windows" {
		_ = errors.Join(s.function.Close(), s.admin.Close()) // an earlier program may have had them
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
	return func() { _ = errors.Join(function.Close(), admin.Close()) }, nil // of copies
}

// copyListener returns a listener of the same port that can be closed alone. On Windows
// it opens the port again, which an earlier program may have had.
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
