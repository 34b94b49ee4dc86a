package supervise

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// Daemon is a program that its supervisor keeps running.
type Daemon struct {
	// Name is the name of the log file without extension.
	Name string
	// Argv contains the absolute path of the program and its arguments.
	Argv []string
	// Env is the complete environment.
	Env []string
	// Needs contains the names of daemons that must be ready before this one starts.
	Needs []string
	// Ready returns nil when the dependents of the daemon may start. It is polled until then. A
	// daemon without Ready is ready when it has started.
	Ready func(ctx context.Context) error
	// Sys contains attributes of the process, such as new namespaces. It is optional.
	Sys *syscall.SysProcAttr
	// Inside replaces Inside of the supervisor. It is optional.
	Inside func(func() error) error
}

// Supervisor keeps daemons running.
type Supervisor struct {
	// Init starts and reaps the processes.
	Init *Init
	// Inside runs a function in the network namespace of the daemons.
	Inside func(func() error) error
	// Logs is the directory of the log files.
	Logs string
}

// Intervals between two readiness checks of a daemon, and between its exit and the next start.
const (
	askEvery     = 50 * time.Millisecond
	restartPause = time.Second
)

// Run starts each daemon when its dependencies are ready, and keeps them running until ctx
// ends. It then kills them, because their state need not be kept, and returns.
func (s *Supervisor) Run(ctx context.Context, daemons []Daemon) {
	ready := make(map[string]chan struct{})
	for _, d := range daemons {
		ready[d.Name] = make(chan struct{})
	}
	var group sync.WaitGroup
	for _, d := range daemons {
		group.Go(func() {
			for _, name := range d.Needs {
				select {
				case <-ready[name]:
				case <-ctx.Done():
					return
				}
			}
			group.Go(func() { s.keep(ctx, d) })
			if waitReady(ctx, d) {
				slog.Info("ready", "daemon", d.Name)
				close(ready[d.Name])
			}
		})
	}
	group.Wait()
}

// waitReady reports whether the daemon became ready before ctx ended.
func waitReady(ctx context.Context, d Daemon) bool {
	for d.Ready != nil && d.Ready(ctx) != nil {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(askEvery):
		}
	}
	return ctx.Err() == nil
}

// keep restarts the daemon when it exits.
func (s *Supervisor) keep(ctx context.Context, d Daemon) {
	for ctx.Err() == nil {
		status, err := s.once(ctx, d)
		slog.Error("daemon ended", "daemon", d.Name, "status", status, "error", err)
		select {
		case <-ctx.Done():
		case <-time.After(restartPause):
		}
	}
}

// once runs the daemon until it exits or ctx ends.
func (s *Supervisor) once(ctx context.Context, d Daemon) (status string, err error) {
	const flags = os.O_CREATE | os.O_WRONLY | os.O_APPEND
	output, err := os.OpenFile(filepath.Join(s.Logs, d.Name+".log"), flags, 0o644)
	if err != nil {
		return "", err
	}
	defer output.Close() //nolint:errcheck // the daemon writes to it
	null, err := os.Open(os.DevNull)
	if err != nil {
		return "", err
	}
	defer null.Close() //nolint:errcheck // it was only read
	attr := &os.ProcAttr{Dir: "/", Env: d.Env, Files: []*os.File{null, output, output}, Sys: d.Sys}
	inside := s.Inside
	if d.Inside != nil {
		inside = d.Inside
	}
	var pid int
	var ended <-chan syscall.WaitStatus
	err = inside(func() error {
		pid, ended, err = s.Init.Start(d.Argv, attr)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("start %s: %w", d.Name, err)
	}
	slog.Info("started", "daemon", d.Name, "pid", pid)
	select {
	case status := <-ended:
		return describe(status), nil
	case <-ctx.Done():
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may have exited
		return describe(<-ended), nil
	}
}

func describe(status syscall.WaitStatus) string {
	if status.Signaled() {
		return "signal: " + status.Signal().String()
	}
	return fmt.Sprintf("exit status %d", status.ExitStatus())
}
