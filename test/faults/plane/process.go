package plane

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// Process is a program that can be started, killed and stopped, and started again with the same
// arguments. It is killed when this process exits.
type Process struct {
	Name string
	Argv []string
	Env  []string

	// Log is the file to which its output is appended.
	Log string

	mu    sync.Mutex
	cmd   *exec.Cmd
	ended chan struct{} // closed when cmd has ended
}

// launcher is a thread that never ends. The kernel signals the death of the parent when the
// thread that started a process ends.
var launcher = sync.OnceValue(func() chan<- func() {
	work := make(chan func())
	go func() {
		runtime.LockOSThread()
		for f := range work {
			f()
		}
	}()
	return work
})

// Start starts the process, which must not be running.
func (p *Process) Start() error {
	log, err := os.OpenFile(p.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close() //nolint:errcheck // the process has it
	cmd := exec.Command(p.Argv[0], p.Argv[1:]...)
	cmd.Env = append(os.Environ(), p.Env...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}

	started := make(chan error)
	launcher() <- func() { started <- cmd.Start() }
	if err := <-started; err != nil {
		return fmt.Errorf("starting %s: %w", p.Name, err)
	}
	ended := make(chan struct{})
	go func() {
		cmd.Wait() //nolint:errcheck // most of them are killed
		close(ended)
	}()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cmd, p.ended = cmd, ended
	return nil
}

// Ended returns a channel that is closed when the process has exited.
func (p *Process) Ended() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ended
}

// Kill sends SIGKILL to the process and waits for its exit. The process need not be running.
func (p *Process) Kill() { p.end(syscall.SIGKILL, time.Minute) }

// Terminate sends SIGTERM to the process and waits for its exit. It kills the process after
// patience.
func (p *Process) Terminate(patience time.Duration) { p.end(syscall.SIGTERM, patience) }

func (p *Process) end(signal syscall.Signal, patience time.Duration) {
	if p.Signal(signal) != nil {
		return
	}
	select {
	case <-p.Ended():
	case <-time.After(patience):
		p.Signal(syscall.SIGKILL) //nolint:errcheck // it may have exited
		<-p.Ended()
	}
}

// Signal sends a signal, such as SIGSTOP and SIGCONT.
func (p *Process) Signal(signal syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return errors.New(p.Name + " has not been started")
	}
	return p.cmd.Process.Signal(signal)
}

// PID returns the ID of the running process.
func (p *Process) PID() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cmd.Process.Pid
}
