package supervise_test

import (
	"bufio"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// pipe is a named pipe to which daemons write when they run.
type pipe struct {
	t     *testing.T
	path  string
	lines *bufio.Reader
}

func newPipe(t *testing.T) *pipe {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	// Opened for both, so that the pipe does not end when a daemon closes it.
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	return &pipe{t: t, path: path, lines: bufio.NewReader(file)}
}

// line waits for one line.
func (p *pipe) line() string {
	p.t.Helper()
	text, err := p.lines.ReadString('\n')
	if err != nil {
		p.t.Fatal(err)
	}
	return strings.TrimSuffix(text, "\n")
}
