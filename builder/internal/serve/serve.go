// Package serve owns the processes that serve a Function on this machine, one
// after the other, behind two ports that stay open as long as it does. It refuses
// to know what the processes are built from, and when.
package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
)

// Config says where a Function is served.
type Config struct {
	// Host is the name or address of the interfaces to listen on. Port is for
	// the function, AdminPort for metrics and probes; 0 is any free one.
	Host            string
	Port, AdminPort int

	// Dir is the working directory of the processes.
	Dir string

	// Env is the environment of the processes, in the form of os.Environ. The
	// variables that hand over the listeners are added.
	Env []string
}

// A Version is a program that serves the Function.
type Version struct {
	Program string

	// Env is added to the environment of all versions.
	Env []string

	// Out and Err take what the process writes. They are closed when it has
	// ended.
	Out, Err io.WriteCloser
}

// Server serves one process at a time.
type Server struct {
	config          Config
	listener, admin net.Listener
	proxy           *http.Server
	current         atomic.Pointer[process]
	refusal         atomic.Pointer[string] // nil while requests wait
	ended           chan error

	alive   context.Context // until Close
	stop    context.CancelFunc
	running sync.WaitGroup // processes and connections
}

// Listen opens the ports. Requests to the function wait there until Replace has
// started a process.
func Listen(c Config) (*Server, error) {
	listener, err := listen(c.Host, c.Port, "--port")
	if err != nil {
		return nil, err
	}
	admin, err := listen(c.Host, c.AdminPort, "--admin-port")
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	s := &Server{config: c, listener: listener, admin: admin, ended: make(chan error, 1)}
	s.alive, s.stop = context.WithCancel(context.Background())
	s.proxy = &http.Server{Handler: http.HandlerFunc(s.forwardAdmin), ReadHeaderTimeout: grace}
	go s.proxy.Serve(admin) //nolint:errcheck // it ends with the server
	s.running.Go(s.forward)
	return s, nil
}

func listen(host string, port int, flag string) (net.Listener, error) {
	var config net.ListenConfig
	l, err := config.Listen(context.Background(), "tcp", net.JoinHostPort(host, strconv.Itoa(port)))
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("port %d is in use, choose another with %s", port, flag)
	case errors.Is(err, syscall.EACCES):
		return nil, fmt.Errorf("port %d is reserved for the administrator of this machine, choose one above 1023 with %s", port, flag)
	}
	return l, err
}

// Addr is the address of the function.
func (s *Server) Addr() *net.TCPAddr { return s.listener.Addr().(*net.TCPAddr) }

// AdminAddr is the address of its metrics and probes.
func (s *Server) AdminAddr() *net.TCPAddr { return s.admin.Addr().(*net.TCPAddr) }

func (s *Server) forwardAdmin(w http.ResponseWriter, r *http.Request) {
	current := s.current.Load()
	if current == nil {
		http.Error(w, "no version of the function is running", http.StatusServiceUnavailable)
		return
	}
	httputil.NewSingleHostReverseProxy(current.admin).ServeHTTP(w, r)
}

// Refuse has the requests that no process can serve answered with a line that
// says why. With an empty reason they wait for the next process, which they do at
// first.
func (s *Server) Refuse(reason string) {
	if reason == "" {
		s.refusal.Store(nil)
		return
	}
	s.refusal.Store(&reason)
}

// Replace starts a version, and ends the process that served before once the new
// one is ready. When that fails, or ctx ends before, the old process goes on
// serving.
func (s *Server) Replace(ctx context.Context, v Version) error {
	next, err := s.start(v)
	if err != nil {
		return err
	}
	if err := next.awaitReady(ctx); err != nil {
		next.kill()
		return err
	}
	previous := s.current.Swap(next)
	go s.report(next)
	if previous != nil {
		previous.end(syscall.SIGTERM)
	}
	return nil
}

// report tells of the end of a process that nobody has asked for.
func (s *Server) report(p *process) {
	<-p.done
	if p.asked.Load() {
		return
	}
	select {
	case s.ended <- p.err:
	case <-s.alive.Done():
	}
}

// Ended delivers how a process that served has ended by itself.
func (s *Server) Ended() <-chan error { return s.ended }

// Serving reports whether there is a process that serves.
func (s *Server) Serving() bool {
	current := s.current.Load()
	return current != nil && !current.hasEnded()
}

// Close ends all processes, by force if they take long, and closes the ports.
func (s *Server) Close() error {
	s.stop()
	err := errors.Join(s.listener.Close(), s.proxy.Close())
	s.running.Wait()
	return err
}
