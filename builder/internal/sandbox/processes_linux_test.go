package sandbox

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// prSetChildSubreaper is the kernel's PR_SET_CHILD_SUBREAPER.
const prSetChildSubreaper = 36

// TestMemoryOfAll runs processes that individually stay within the limit, but exceed it together.
func TestMemoryOfAll(t *testing.T) {
	const eat = "head -c 64M /dev/zero | tail -c 64M | sleep 1000"
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r, err := Run(ctx, Command{
		Policy: Policy{Open: true, Memory: 160 << 20},
		Args:   []string{"/bin/sh", "-c", strings.Repeat(eat+" & ", 3) + "wait"},
	})
	if !errors.Is(err, ErrOutOfMemory) || !r.Killed() {
		t.Errorf("it ended with %v, want that it was killed for its memory", err)
	}
}

// TestMemoryOfEach runs a process that allocates more than the limit. The kernel refuses the
// allocation before the memory is used.
func TestMemoryOfEach(t *testing.T) {
	r, err := Run(t.Context(), Command{
		Policy: Policy{Open: true, Memory: 32 << 20},
		Args:   []string{"/bin/sh", "-c", "dd if=/dev/zero of=/dev/null bs=256M count=1 2>&1; :"},
	})
	if err != nil || !strings.Contains(r.Stdout.String(), "memory exhausted") {
		t.Errorf("it ended with %v and says %q, want that the memory is exhausted", err, &r.Stdout)
	}
}

// TestUsageWithoutLeader measures a process whose first thread has ended.
func TestUsageWithoutLeader(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, leaderName)
	cmd.SysProcAttr = EndWithParent(NewGroup())
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	process := filepath.Join("/proc", strconv.Itoa(cmd.Process.Pid))
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		status, err := os.ReadFile(filepath.Join(process, "status"))
		if bytes.Contains(status, []byte("State:\tZ")) {
			break
		}
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("its first thread has not ended: %v\n%s", err, status)
		}
	}
	if used := groupUsage(cmd.Process.Pid); used.alive != 1 || used.memory < 64<<20 {
		t.Errorf("a process without its first thread uses %+v, want that it is alive and has 64 MiB", used)
	}
	if err := errors.Join(in.Close(), cmd.Wait()); err != nil {
		t.Error(err)
	}
}

// TestNobodyIsLeft makes this process a subreaper like PID 1 of a container: orphaned processes
// become its children and must be awaited.
func TestNobodyIsLeft(t *testing.T) {
	subreaper := func(on uintptr) {
		if _, _, err := syscall.Syscall(syscall.SYS_PRCTL, prSetChildSubreaper, on, 0); err != 0 {
			t.Fatal(err)
		}
	}
	subreaper(1)
	defer subreaper(0)
	started := firstWrite{closed: make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-started.closed
		cancel()
	}()
	_, err := Run(ctx, Command{
		Policy: Policy{Open: true},
		Args:   []string{"/bin/sh", "-c", "sleep 1000 & sleep 1000 & echo started; wait"},
		Stdout: started,
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("it ended with %v, want that it was cancelled", err)
	}
	if id, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); !errors.Is(err, syscall.ECHILD) {
		t.Errorf("the process %d is left, %v", id, err)
	}
}

// A firstWrite closes a channel at the first write.
type firstWrite struct{ closed chan struct{} }

// Write never fails.
func (w firstWrite) Write(p []byte) (int, error) {
	close(w.closed)
	return len(p), nil
}
