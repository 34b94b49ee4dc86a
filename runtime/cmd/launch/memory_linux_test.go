package main

import (
	"errors"
	"io"
	"os"
	"syscall"
	"testing"
)

// A sealed file can be read but not changed.
func TestMemory(t *testing.T) {
	if err := checkMemory(); err != nil {
		t.Fatal(err)
	}
	file, err := inMemory()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteString("content"); err != nil {
		t.Fatal(err)
	}
	sealed, err := seal(file)
	if err != nil {
		t.Fatal(err)
	}
	defer sealed.Close() //nolint:errcheck // it was only read
	if content, err := io.ReadAll(sealed); err != nil || string(content) != "content" {
		t.Errorf("got %q, %v", content, err)
	}
	again, err := os.OpenFile(path(sealed), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close() //nolint:errcheck // nothing was written
	if _, err := again.WriteString("other"); !errors.Is(err, syscall.EPERM) {
		t.Errorf("writing to a sealed file returned %v", err)
	}
	if err := again.Truncate(0); !errors.Is(err, syscall.EPERM) {
		t.Errorf("truncating a sealed file returned %v", err)
	}
}
