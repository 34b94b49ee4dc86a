package main

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestClean uses remains of an earlier process in the store: directories without permissions, which
// are removed, and files of another user, which cannot be removed. The build service must start
// nevertheless, and remove these as soon as it can.
func TestClean(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make files of another user")
	}
	store, err := os.MkdirTemp("", "goless-store-") //nolint:usetesting // other users cannot enter the parent of t.TempDir
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(store) //nolint:errcheck // it is below the temporary directory
	t.Setenv("TMPDIR", os.TempDir())
	own, foreign := filepath.Join(store, "goless-dependencies", "own"), filepath.Join(store, "goless-work", "foreign")
	if err := errors.Join(os.MkdirAll(filepath.Join(own, "sub"), 0o700), os.MkdirAll(filepath.Join(foreign, "sub"), 0o755), os.WriteFile(filepath.Join(store, "other"), nil, 0o600),
		os.Chmod(own, 0), os.Chown(store, nobody, nobody), os.Chown(filepath.Dir(own), nobody, nobody), os.Chown(own, nobody, nobody), os.Chown(filepath.Join(own, "sub"), nobody, nobody)); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	v := &buildService{store: store}
	v.config.Log = slog.New(slog.NewTextHandler(&log, nil))
	if err := asNobody(v.clean); err != nil {
		t.Fatalf("clean: %v", err)
	}
	left := names(t, store)
	if len(left) != 3 || left[0] != "goless-work" || !strings.HasPrefix(left[1], "goless-work"+asideSuffix) || left[2] != "other" {
		t.Errorf("in the store are %q, want that all was removed but the files of another user, which were renamed", left)
	}
	if !strings.Contains(log.String(), "permission denied") || !strings.Contains(log.String(), asideSuffix) {
		t.Errorf("the log has %q, want what was not removed, and why", &log)
	}
	if err := v.clean(); err != nil { // root may remove the files
		t.Fatalf("clean: %v", err)
	}
	if left := names(t, store); !slices.Equal(left, []string{"goless-work", "other"}) {
		t.Errorf("in the store are %q, want that what was renamed is removed at the next start", left)
	}
}

// asNobody calls do with the file permissions of the user of a container.
func asNobody(do func() error) error {
	result := make(chan error)
	go func() {
		runtime.LockOSThread() // the thread is terminated with the goroutine, so that it is not reused
		err := errors.Join(unix.Setfsgid(nobody), unix.Setfsuid(nobody))
		if err == nil {
			err = do()
		}
		result <- err
	}()
	return <-result
}
