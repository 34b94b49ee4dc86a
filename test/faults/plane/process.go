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

// Process is one program that can be started, hurt, and started again with the
// same arguments. It ends with this process, however that ends.
type Process struct {
	Name string
	Argv []string
	Env  []string

	// Log is the file that its output is appended to.
	Log string

	mu    sync.Mutex
	cmd   *exec.Cmd
	ended chan struct{} // closed when cmd has ended
}

// launcher is a thread that never ends. The kernel takes the end of the thread
// that has started a process for the end of its parent.
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

// Start starts the process, which must not run.
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

// Ended is closed when the process has ended.
func (p *Process) Ended() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ended
}

// Kill ends the process as kill -9 does, and waits until it has ended. It may
// have ended before, or never have been started.
func (p *Process) Kill() { p.end(syscall.SIGKILL, time.Minute) }

// Terminate asks the process to end and waits for that; after patience it is
// killed.
func (p *Process) Terminate(patience time.Duration) { p.end(syscall.SIGTERM, patience) }

func (p *Process) end(signal syscall.Signal, patience time.Duration) {
	if p.Signal(signal) != nil {
		return
	}
	select {
	case <-p.Ended():
	case <-time.After(patience):
		p.Signal(syscall.SIGKILL) //nolint:errcheck // it may have ended by now
		<-p.Ended()
	}
}

// Signal sends a signal; SIGSTOP and SIGCONT make the process stand still and
// go on.
func (p *Process) Signal(signal syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return errors.New(p.Name + " has not been started")
	}
	return p.cmd.Process.Signal(signal)
}

// PID is the number of the running process.
func (p *Process) PID() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cmd.Process.Pid
}
