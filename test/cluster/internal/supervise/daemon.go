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

// Daemon is a program that is to run for as long as its supervisor does.
type Daemon struct {
	// Name names the log file.
	Name string
	// Argv is the program, by its absolute path, and its arguments.
	Argv []string
	// Env is the whole environment.
	Env []string
	// Needs names daemons that have to be ready before this one starts.
	Needs []string
	// Ready tells whether those that need the daemon may start. It is asked
	// until it returns nil. A daemon without it is ready once started.
	Ready func(ctx context.Context) error
}

// Supervisor keeps daemons running.
type Supervisor struct {
	// Init starts and collects the processes.
	Init *Init
	// Inside runs a function in the network namespace of the daemons.
	Inside func(func() error) error
	// Logs is the folder of the log files.
	Logs string
}

// Times between two questions to a daemon that is not ready, and between the
// end of a daemon and its next start.
const (
	askEvery     = 50 * time.Millisecond
	restartPause = time.Second
)

// Run starts the daemons, each as soon as the ones that it needs are ready, and
// keeps them running until ctx ends. Then it kills them, for nothing that they
// know is to outlive them, and returns.
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

// keep starts the daemon again whenever it ends.
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

// once runs the daemon until it ends, by itself or with ctx.
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
	attr := &os.ProcAttr{Dir: "/", Env: d.Env, Files: []*os.File{null, output, output}}
	var pid int
	var ended <-chan syscall.WaitStatus
	err = s.Inside(func() error {
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
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended by itself
		return describe(<-ended), nil
	}
}

func describe(status syscall.WaitStatus) string {
	if status.Signaled() {
		return "signal: " + status.Signal().String()
	}
	return fmt.Sprintf("exit status %d", status.ExitStatus())
}
