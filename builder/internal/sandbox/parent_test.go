package sandbox

import (
	"bufio"
	"context"
	"io"
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"
)

// abandonName is the argument that makes the test binary run a command that does not end until it
// is killed.
const abandonName = "abandon"

func abandon() {
	_, _ = Run(context.Background(), Command{
		Policy: Policy{Open: true},
		Args:   []string{"/bin/sh", "-c", "echo started; exec sleep 1000"},
		Stdout: os.Stdout,
	})
}

// TestCommandEndsWithTheBuilder checks that all started processes end when the builder is killed.
// Any remaining process would hold the pipe open.
func TestCommandEndsWithTheBuilder(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux ties processes to each other")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close() //nolint:errcheck // it was only read
	builder := exec.CommandContext(t.Context(), self, abandonName)
	builder.Stdout = w
	if err := builder.Start(); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := r.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(r)
	if line, err := lines.ReadString('\n'); err != nil || line != "started\n" {
		t.Fatalf("the command says %q, %v", line, err)
	}
	if err := builder.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = builder.Wait() // killed
	if _, err := io.ReadAll(lines); err != nil {
		t.Errorf("the command has outlived the builder: %v", err)
	}
}
