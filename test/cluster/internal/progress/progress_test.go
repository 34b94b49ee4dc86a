package progress_test

import (
	"regexp"
	"testing"
	"time"

	"goless.io/test/cluster/internal/progress"
)

// lines is a writer that sends each line to a channel.
type lines chan string

func (l lines) Write(p []byte) (int, error) {
	l <- string(p)
	return len(p), nil
}

func TestSay(t *testing.T) {
	out := make(lines, 1)
	progress.New(out).Say("building %s", "etcd")
	if got := <-out; !regexp.MustCompile(`^ +\d+\.\ds  building etcd\n$`).MatchString(got) {
		t.Errorf("line = %q", got)
	}
}

func TestEveryUntilStopped(t *testing.T) {
	out := make(lines, 100)
	stop := progress.New(out).Every(time.Millisecond, func() string { return "still waiting" })
	if got := <-out; !regexp.MustCompile(`s    \.\.\. still waiting\n$`).MatchString(got) {
		t.Errorf("line = %q", got)
	}
	stop()
	close(out) // a line after stop would panic here
}
