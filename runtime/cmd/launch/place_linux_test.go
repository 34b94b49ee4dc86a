package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// What is frozen can be read, and never be written again.
func TestMemory(t *testing.T) {
	memory := places()[0]
	if err := memory.check(); err != nil {
		t.Fatal(err)
	}
	file, err := memory.open()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteString("content"); err != nil {
		t.Fatal(err)
	}
	frozen, err := memory.freeze(file)
	if err != nil {
		t.Fatal(err)
	}
	defer frozen.Close() //nolint:errcheck // it was only read
	if content, err := io.ReadAll(frozen); err != nil || string(content) != "content" {
		t.Errorf("got %q, %v", content, err)
	}
	again, err := os.OpenFile(path(frozen), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close() //nolint:errcheck // nothing was written
	if _, err := again.WriteString("other"); !errors.Is(err, syscall.EPERM) {
		t.Errorf("a write to what is frozen gives %v", err)
	}
	if err := again.Truncate(0); !errors.Is(err, syscall.EPERM) {
		t.Errorf("to truncate what is frozen gives %v", err)
	}
}

// A place that cannot be used is known before anything is downloaded.
func TestCheck(t *testing.T) {
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "missing"))
	if err := places()[1].check(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing directory gives %v", err)
	}
	t.Setenv("TMPDIR", t.TempDir())
	if err := places()[1].check(); err != nil {
		t.Error(err)
	}
}
