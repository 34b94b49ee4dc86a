// Package devserver runs the program of a Function on the machine of a developer, for
// the command builder run. It listens on the two ports of the function and hands the
// listeners to one program after another. Clients that connect while there is none wait
// for the next, or get 503 after Refuse. It does not know how and when programs are built.
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
	// drain is how long running requests get before their program ends, unless
	// drainVariable has another value in the environment of the program.
	drain         = 10 * time.Second
	drainVariable = "DRAIN_TIMEOUT"

	// grace is how long a program gets to end after that before it is killed.
	grace = 5 * time.Second
)

// Config says where a Function is served.
type Config struct {
	// Host is the name or address to listen on. Port is for the function,
	// AdminPort for metrics and probes; 0 is any free one.
	Host            string
	Port, AdminPort int

	// Dir is the working directory of the programs.
	Dir string

	// Env is the environment of the programs, in the form of os.Environ.
	Env []string
}

// Program is one version of the Function.
type Program struct {
	Path string

	// Env is added to the environment of all programs.
	Env []string

	// Out and Err take what the program writes. They are closed when it has ended.
	Out, Err io.WriteCloser
}

// Server serves a Function with one program at a time. Its methods may not be called
// at the same time.
type Server struct {
	config          Config
	function, admin *net.TCPListener
	lifetime        context.Context // of the program
	stop            func()          // ends what serves or refuses, and returns when that has ended
}

// Listen opens the ports. The error for one that is in use names the flag of builder run
// that chooses another.
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
		return nil, fmt.Errorf("port %d is in use, choose another with %s", port, flag)
	case errors.Is(err, syscall.EACCES):
		return nil, fmt.Errorf("port %d is reserved for the administrator of this machine, choose one above 1023 with %s", port, flag)
	case err != nil:
		return nil, err
	}
	return l.(*net.TCPListener), nil
}

// Addr is the address of the function.
func (s *Server) Addr() *net.TCPAddr { return s.function.Addr().(*net.TCPAddr) }

// AdminAddr is the address of its metrics and probes.
func (s *Server) AdminAddr() *net.TCPAddr { return s.admin.Addr().(*net.TCPAddr) }

// SetPort listens on another port for the programs that start from now on. If that fails
// the port stays as it is. The program that runs keeps its own port until it ends.
func (s *Server) SetPort(port int) error {
	if port == s.Addr().Port {
		return nil
	}
	function, err := listen(s.config.Host, port, "--port")
	if err != nil {
		return err
	}
	_ = s.function.Close() // on Windows it may be closed, see passListeners
	s.function = function
	return nil
}

// Start ends the program that runs and starts another one. Requests in flight get the
// time to drain; a program that then takes more than five seconds to end is killed.
func (s *Server) Start(p Program) error {
	s.Stop()
	interrupted, interrupt := context.WithCancel(context.Background())
	cmd := exec.CommandContext(interrupted, p.Path)
	cmd.Env = slices.Concat([]string{drainVariable + "=" + drain.String()}, s.config.Env, p.Env)
	cmd.Dir = s.config.Dir
	cmd.Stdout, cmd.Stderr = p.Out, p.Err
	// A process group of its own keeps the terminal's Ctrl-C from the program, which
	// would end at once if it were interrupted twice.
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
		_ = errors.Join(p.Out.Close(), p.Err.Close()) // there is nobody to be told
		ended(cmp.Or(err, errors.New("exit status 0")))
	}()
	s.lifetime = lifetime
	s.stop = func() {
		interrupt()
		<-lifetime.Done()
	}
	return nil
}

// drainOf returns how long a program with the environment waits for requests in flight.
func drainOf(env []string) time.Duration {
	for _, variable := range slices.Backward(env) { // the last one counts
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

// Lifetime returns a context that ends when the program that runs has ended by itself.
// The cause says how. It never ends if no program runs.
func (s *Server) Lifetime() context.Context { return s.lifetime }

// Stop ends the program that runs, if there is one. Clients that connect wait for the next.
func (s *Server) Stop() {
	s.stop()
	s.lifetime, s.stop = context.Background(), func() {}
}

// Close ends the program that runs, as Stop does, and closes the ports.
func (s *Server) Close() error {
	s.Stop()
	if err := errors.Join(s.function.Close(), s.admin.Close()); !errors.Is(err, net.ErrClosed) { // see passListeners
		return err
	}
	return nil
}
