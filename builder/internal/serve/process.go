package serve

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// farewell is for how long a process that has a successor answers the
	// clients that are still connected, and asks them to leave: see DRAIN_DELAY
	// of the runtime.
	farewell = "200ms"

	// drain is what running requests get after that, and grace what a process
	// gets before it is killed.
	drain = "3s"
	grace = 5 * time.Second
)

// A process is one version of the function.
type process struct {
	cmd     *exec.Cmd
	address string // of the function
	admin   *url.URL
	asked   atomic.Bool   // to end
	done    chan struct{} // closed when it has ended, with err
	err     error
}

// start executes a program that takes its listeners from file descriptors.
func (s *Server) start(v Version) (*process, error) {
	address, function, err := inheritable()
	if err != nil {
		return nil, err
	}
	defer function.Close() //nolint:errcheck // the process has it
	adminAddress, admin, err := inheritable()
	if err != nil {
		return nil, err
	}
	defer admin.Close() //nolint:errcheck // as above

	p := &process{
		cmd:     exec.CommandContext(s.alive, v.Program),
		address: address,
		admin:   &url.URL{Scheme: "http", Host: adminAddress},
		done:    make(chan struct{}),
	}
	// They become the second and third file after the standard ones.
	p.cmd.ExtraFiles = []*os.File{function, admin}
	p.cmd.Env = slices.Concat([]string{"DRAIN_TIMEOUT=" + drain}, s.config.Env, v.Env,
		[]string{"SERVER_LISTENER=3", "ADMIN_LISTENER=4", "DRAIN_DELAY=" + farewell})
	p.cmd.Dir = s.config.Dir
	p.cmd.Stdout, p.cmd.Stderr = v.Out, v.Err
	p.cmd.SysProcAttr = attributes()
	// With the server everything ends, so nobody has to be sent away.
	p.cmd.Cancel = func() error { p.end(syscall.SIGINT); return nil }
	p.cmd.WaitDelay = grace
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting the function: %w", err)
	}
	s.running.Go(func() {
		p.err = p.cmd.Wait()
		_ = errors.Join(v.Out.Close(), v.Err.Close()) // there is nobody left to be told
		close(p.done)
	})
	return p, nil
}

// inheritable listens on a port that only this machine reaches, by a file that
// another process can take over.
func inheritable() (address string, file *os.File, err error) {
	var config net.ListenConfig
	listener, err := config.Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	defer listener.Close() //nolint:errcheck // the file is another one
	file, err = listener.(*net.TCPListener).File()
	return listener.Addr().String(), file, err
}

// awaitReady returns when the process serves, has ended, or ctx has.
func (p *process) awaitReady(ctx context.Context) error {
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()
	for !p.ready(ctx) {
		select {
		case <-p.done:
			return fmt.Errorf("it ended before it was ready: %w", p.err)
		case <-ctx.Done():
			return ctx.Err()
		case <-poll.C:
		}
	}
	return nil
}

func (p *process) ready(ctx context.Context) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.admin.JoinPath("readyz").String(), nil)
	if err != nil {
		return false
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	defer response.Body.Close() //nolint:errcheck // only the status matters
	return response.StatusCode == http.StatusOK
}

// end asks the process to end when its requests have.
func (p *process) end(signal os.Signal) {
	p.asked.Store(true)
	_ = p.cmd.Process.Signal(signal) // fails only when it has ended
}

func (p *process) kill() {
	p.asked.Store(true)
	_ = p.cmd.Process.Kill() // as above
	<-p.done
}

func (p *process) hasEnded() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}
