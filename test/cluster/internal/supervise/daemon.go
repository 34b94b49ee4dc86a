package supervise

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
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
// keeps them running until ctx ends. It does not end them: the kernel does when
// the first process of their PID namespace ends.
func (s *Supervisor) Run(ctx context.Context, daemons []Daemon) {
	ready := make(map[string]chan struct{})
	for _, d := range daemons {
		ready[d.Name] = make(chan struct{})
	}
	for _, d := range daemons {
		go func() {
			for _, name := range d.Needs {
				select {
				case <-ready[name]:
				case <-ctx.Done():
					return
				}
			}
			go s.keep(ctx, d)
			if waitReady(ctx, d) {
				slog.Info("ready", "daemon", d.Name)
				close(ready[d.Name])
			}
		}()
	}
	<-ctx.Done()
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
		status, err := s.once(d)
		slog.Error("daemon ended, starts again", "daemon", d.Name, "status", status, "error", err, "pause", restartPause)
		select {
		case <-ctx.Done():
		case <-time.After(restartPause):
		}
	}
}

// once runs the daemon until it ends.
func (s *Supervisor) once(d Daemon) (status string, err error) {
	const flags = os.O_CREATE | os.O_WRONLY | os.O_APPEND
	output, err := os.OpenFile(filepath.Join(s.Logs, d.Name+".log"), flags, 0o644)
	if err != nil {
		return "", err
	}
	defer output.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		return "", err
	}
	defer null.Close()
	attr := &os.ProcAttr{Dir: "/", Env: d.Env, Files: []*os.File{null, output, output}}
	var ended <-chan syscall.WaitStatus
	err = s.Inside(func() error {
		pid, done, err := s.Init.Start(d.Argv, attr)
		if err != nil {
			return err
		}
		slog.Info("started", "daemon", d.Name, "pid", pid)
		ended = done
		return nil
	})
	if err != nil {
		return "", fmt.Errorf("start %s: %w", d.Name, err)
	}
	return describe(<-ended), nil
}

func describe(status syscall.WaitStatus) string {
	if status.Signaled() {
		return "killed by " + status.Signal().String()
	}
	return fmt.Sprintf("exit status %d", status.ExitStatus())
}
