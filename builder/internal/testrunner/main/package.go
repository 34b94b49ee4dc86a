package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"
)

const (
	// killDelay is added to the timeout of the tests before they are killed. It lets them print
	// which of them is running.
	killDelay = 5 * time.Second

	// outputDelay is how long the output may remain open after the tests have ended, because a
	// process that they started inherited it.
	outputDelay = time.Second
)

// packageTests are the tests of a package.
type packageTests struct {
	binary  string // path of the compiled tests
	dir     string // working directory
	name    string // in messages
	timeout time.Duration
	environ []string
}

// errKilled means that the tests ignored their timeout.
var errKilled = errors.New("timeout")

// run runs the tests, copies their output to out and passes it to found. The error means that they
// could not be run. Tests that fail are not an error.
func (t *packageTests) run(ctx context.Context, out io.Writer, found *packageResults) error {
	limited, cancel := context.WithTimeoutCause(ctx, t.timeout+killDelay, errKilled)
	defer cancel()
	lines := &lineWriter{out: out, line: found.line}
	cmd := exec.CommandContext(limited, t.binary, "-test.timeout="+t.timeout.String(), "-test.paniconexit0")
	cmd.Dir = t.dir
	cmd.Env = append(t.environ, "PWD="+t.dir)
	cmd.Stdout, cmd.Stderr = lines, lines
	cmd.SysProcAttr = newGroup()
	cmd.Cancel = func() error { return killGroup(cmd.Process) }
	cmd.WaitDelay = outputDelay
	started := time.Now()
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("executing the tests of %s: %w", t.name, err)
	}
	err := cmd.Wait()
	_ = killGroup(cmd.Process) // processes that the tests left, if any
	if isInit() {
		killOthers() // those that left the group
	}
	lines.close()
	if ctx.Err() != nil {
		return fmt.Errorf("a signal stopped the tests of %s", t.name)
	}
	found.end(t, cmd.ProcessState, errors.Is(context.Cause(limited), errKilled))
	if _, failed := errors.AsType[*exec.ExitError](err); err != nil && !failed && !errors.Is(err, exec.ErrWaitDelay) {
		return fmt.Errorf("waiting for the tests of %s: %w", t.name, err)
	}
	verdict := "ok "
	if found.hasFailed {
		verdict = "FAIL"
	}
	fmt.Fprintf(out, "%-4s %s %.2fs\n", verdict, t.name, time.Since(started).Seconds())
	return nil
}

// end interprets the state of the process after its output.
func (p *packageResults) end(t *packageTests, state *os.ProcessState, timedOut bool) {
	switch {
	case timedOut:
		p.timedOut = true
		p.problem = fmt.Sprintf("the tests of %s ran longer than %s and were killed", t.name, t.timeout)
	case !state.Exited():
		p.problem = fmt.Sprintf("the tests of %s were killed (%s)", t.name, state)
		if state.String() == "signal: killed" {
			p.problem += "; they may have used more memory than the limit"
		}
	case state.Success():
		return
	case p.crash.message != "" && state.ExitCode() == exitCrash:
		p.addCrash()
	case p.failed == 0:
		p.problem = fmt.Sprintf("the tests of %s ended with exit code %d without a failed test; they may have called os.Exit or log.Fatal", t.name, state.ExitCode())
	}
	p.results.add(p)
}
