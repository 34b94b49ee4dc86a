// Package devserver runs the program of a Function on a developer's machine, for "builder run". It
// listens on the two ports of the function and passes the listeners to one program after another.
// Clients that connect while no program runs wait for the next program. After a call of Refuse,
// they get 503 until the next call of Start or Stop. The package does not build programs.
package devserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"goless.io/builder/internal/sandbox"
)

const (
	// drain is how long a program may take to finish running requests before it ends, unless
	// drainVariable in its environment sets a different time.
	drain         = 10 * time.Second
	drainVariable = "DRAIN_TIMEOUT"

	// grace is how long a program may take to exit after that before it is killed.
	grace = 5 * time.Second
)

// Config configures a Server.
type Config struct {
	// Host is the name or address to listen on. Port is the port of the function, and AdminPort
	// that of metrics and probes; 0 means any free port.
	Host            string
	Port, AdminPort int

	// Dir is the working directory of the programs.
	Dir string

	// Env is the environment of the programs, in the form of os.Environ.
	Env []string
}

// Program is a version of the Function.
type Program struct {
	Path string

	// Env is added to the environment in Config.
	Env []string

	// Out and Err receive the output of the program. They are closed when it has ended.
	Out, Err io.WriteCloser
}

// Server serves a Function with one program at a time. Its methods must not be called concurrently.
type Server struct {
	config          Config
	function, admin *net.TCPListener
	lifetime        context.Context // of the program
	stop            func()          // ends the program or Refuse, and returns when it has ended
}

// Listen opens the ports. If a port is in use, the error names the flag of "builder run" to choose
// another one.
func Listen(c Config) (*Server, error) {
	function, err := listen(c.Host, c.Port, "--port")
	if err != nil {
		return nil, err
	}
	admin, err := listen(c.Host, c.AdminPort, "--admin-port")
	if err != nil {
		return nil, errors.Join(err, function.Close())
	}
	return &Server{config: c, function: function, admin: admin, lifetime: context.Background(), stop: func() {}}, nil
}

func listen(host string, port int, flag string) (*net.TCPListener, error) {
	var config net.ListenConfig
	l, err := config.Listen(context.Background(), "tcp", net.JoinHostPort(host, strconv.Itoa(port)))
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("port %d is in use; set another one with %s", port, flag)
	case errors.Is(err, syscall.EACCES):
		return nil, fmt.Errorf("port %d is reserved for root; set one above 1023 with %s", port, flag)
	case err != nil:
		return nil, err
	}
	return l.(*net.TCPListener), nil
}

// Addr returns the address of the function.
func (s *Server) Addr() *net.TCPAddr { return s.function.Addr().(*net.TCPAddr) }

// AdminAddr returns the address of metrics and probes.
func (s *Server) AdminAddr() *net.TCPAddr { return s.admin.Addr().(*net.TCPAddr) }

// SetPort listens on another port for the programs that start from now on. The running program
// keeps its port until it ends. If SetPort fails, the port does not change.
func (s *Server) SetPort(port int) error {
	if port == s.Addr().Port {
		return nil
	}
	function, err := listen(s.config.Host, port, "--port")
	if err != nil {
		return err
	}
	_ = s.function.Close() // on Windows it may already be closed, see passListeners
	s.function = function
	return nil
}

// Start ends the running program and starts another one. The old program first drains its requests,
// and is killed if it takes more than five seconds to exit after that.
func (s *Server) Start(p Program) error {
	s.Stop()
	interrupted, interrupt := context.WithCancel(context.Background())
	cmd := exec.CommandContext(interrupted, p.Path)
	cmd.Env = slices.Concat([]string{drainVariable + "=" + drain.String()}, s.config.Env, p.Env)
	cmd.Dir = s.config.Dir
	cmd.Stdout, cmd.Stderr = p.Out, p.Err
	// A separate process group keeps the terminal's Ctrl-C from the program, which would exit
	// immediately if it were interrupted twice.
	cmd.SysProcAttr = sandbox.EndWithParent(sandbox.NewGroup())
	cmd.Cancel = func() error { return end(cmd.Process) }
	cmd.WaitDelay = drainOf(cmd.Env) + grace
	release, err := s.passListeners(cmd)
	if err == nil {
		if err = cmd.Start(); err != nil {
			release()
		}
	}
	if err != nil {
		interrupt()
		return fmt.Errorf("starting the function: %w", err)
	}
	lifetime, ended := context.WithCancelCause(context.Background())
	go func() {
		err := cmd.Wait()
		release()
		_ = errors.Join(p.Out.Close(), p.Err.Close()) // the error cannot be reported
		ended(cmp.Or(err, errors.New("exit status 0")))
	}()
	s.lifetime = lifetime
	s.stop = func() {
		interrupt()
		<-lifetime.Done()
	}
	return nil
}

// drainOf returns how long a program with this environment waits for running requests.
func drainOf(env []string) time.Duration {
	for _, variable := range slices.Backward(env) { // the last value applies
		if value, ok := strings.CutPrefix(variable, drainVariable+"="); ok {
			// The program rejects other values when it starts.
			if d, err := time.ParseDuration(value); err == nil && d >= 0 {
				return min(d, time.Hour)
			}
			break
		}
	}
	return drain
}

// Lifetime returns a context that ends when the running program has exited by itself. Its cause
// describes the exit. It never ends if no program runs.
func (s *Server) Lifetime() context.Context { return s.lifetime }

// Stop ends the running program, if any. Clients that connect wait for the next one.
func (s *Server) Stop() {
	s.stop()
	s.lifetime, s.stop = context.Background(), func() {}
}

// Close ends the running program, like Stop, and closes the ports.
func (s *Server) Close() error {
	s.Stop()
	if err := errors.Join(s.function.Close(), s.admin.Close()); !errors.Is(err, net.ErrClosed) { // see passListeners
		return err
	}
	return nil
}
