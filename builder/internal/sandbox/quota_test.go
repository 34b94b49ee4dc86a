package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestQuotaEnds runs a command that never ends by itself.
func TestQuotaEnds(t *testing.T) {
	dir := t.TempDir()
	r, err := Run(t.Context(), Command{
		Policy: Policy{Open: true},
		Dir:    dir,
		Args:   []string{"/bin/sh", "-c", "i=0; while true; do i=$((i+1)); echo > $i; done"},
		Quota:  &Quota{[]string{dir}, MaxDisk, 100},
	})
	if !errors.Is(err, ErrTooLarge) || !r.Killed() {
		t.Errorf("it ended with %v, want that it was killed for its files", err)
	}
	if _, err := Run(t.Context(), Command{
		Policy: Policy{Open: true},
		Args:   []string{"/bin/sh", "-c", "echo > " + filepath.Join(dir, "next")},
		Quota:  &Quota{[]string{dir}, MaxDisk, 100},
	}); !errors.Is(err, ErrTooLarge) || exists(filepath.Join(dir, "next")) {
		t.Errorf("the next command ended with %v, want that it is not even started", err)
	}
}

// TestQuota checks that files count by their disk space, and not by their length.
func TestQuota(t *testing.T) {
	dir := t.TempDir()
	for i := range 9 {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Truncate(filepath.Join(dir, "0"), 1<<30); err != nil {
		t.Fatal(err)
	}
	empty := t.TempDir()
	for i := range 9 {
		if err := os.Mkdir(filepath.Join(empty, fmt.Sprint(i)), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	deep := t.TempDir()
	if err := makeDeep(deep); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		quota Quota
		over  bool
	}{
		"Deep":    {Quota{[]string{deep}, 1 << 20, 1000}, true},
		"Dirs":    {Quota{[]string{empty}, 0, 10}, true},
		"Enough":  {Quota{[]string{dir}, 2 << 30, 10}, false},
		"Hole":    {Quota{[]string{dir}, 1 << 20, 10}, true},
		"Files":   {Quota{[]string{dir}, 2 << 30, 9}, true},
		"Several": {Quota{[]string{dir, dir}, 2 << 30, 19}, true},
		"Missing": {Quota{[]string{filepath.Join(dir, "none")}, 0, 0}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if err := c.quota.check(); errors.Is(err, ErrTooLarge) != c.over {
				t.Errorf("check: %v, want an error: %t", err, c.over)
			}
		})
	}
}

// makeDeep creates nested directories until the path of a 2 MiB file in the last one is too long
// for the system.
func makeDeep(dir string) error {
	root, err := os.OpenRoot(dir)
	for range 50 {
		if err != nil {
			return err
		}
		root, err = enterNew(root, strings.Repeat("x", 200))
	}
	if err != nil {
		return err
	}
	return errors.Join(root.WriteFile("large", make([]byte, 2<<20), 0o600), root.Close())
}

// enterNew creates a directory, opens it and closes its parent.
func enterNew(in *os.Root, name string) (*os.Root, error) {
	defer in.Close() //nolint:errcheck // it is only a directory
	if err := in.Mkdir(name, 0o700); err != nil {
		return nil, err
	}
	return in.OpenRoot(name)
}

// TestDeployedVolume checks that the deployed volume has room for all concurrent builds at their
// limits, all results, one binary per build that is being stored, and all kept dependencies.
func TestDeployedVolume(t *testing.T) {
	manifest, err := os.ReadFile(filepath.Join("..", "..", "..", "deploy", "50-build.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	number := func(pattern string) int64 {
		found := regexp.MustCompile(pattern).FindSubmatch(manifest)
		if found == nil {
			t.Fatalf("deploy/50-build.yaml has no %s", pattern)
		}
		n, err := strconv.ParseInt(string(found[1]), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	builds, volume := number(`--parallel=(\d+)`), number(`- name: store\n +emptyDir:\n +sizeLimit: "(\d+)Gi"`)<<30
	kept := (number(`--store-size=(\d+)`) + number(`--dependencies-size=(\d+)`)) << 20
	if need := kept + builds*(MaxDisk+MaxFileSize); need*5/4 > volume {
		t.Errorf("%d builds and what is kept of others take %d MiB, and the volume has only %d", builds, need>>20, volume>>20)
	}
	if pod := number(`ephemeral-storage: (\d+)Gi`) << 30; pod < volume {
		t.Errorf("the pod may have %d MiB, and its volume %d", pod>>20, volume>>20)
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
