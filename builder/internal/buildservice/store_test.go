package buildservice

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// newStore opens a store with room for n binaries.
func newStore(t *testing.T, dir string, n int) *store {
	t.Helper()
	s, err := openStore(dir, int64(n)*(resultSize+int64(len(content))))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

const content = "what was built"

// put stores content.
func put(t *testing.T, s *store, key string) {
	t.Helper()
	dir, err := s.temporary()
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir) //nolint:errcheck // below the directory of the test
	binary := filepath.Join(dir, "server")
	if err := os.WriteFile(binary, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	namespace := strings.TrimRight(key, "0123456789")
	r := result{Namespace: namespace, Report: json.RawMessage(`{}`), Signature: "by somebody", Size: int64(len(content))}
	if err := s.put(key, binary, r); err != nil {
		t.Fatal(err)
	}
}

// has reports whether the store contains the content that put stored. Other content fails the test.
func has(t *testing.T, s *store, key string) bool {
	t.Helper()
	file, _, known := s.open(key)
	if !known {
		return false
	}
	defer file.Close() //nolint:errcheck // it was only read
	data, err := io.ReadAll(file)
	if err != nil || string(data) != content {
		t.Errorf("the store has %q, %v", data, err)
	}
	return true
}

// TestReportsInMemory checks that a store with the deployed settings, full of failures without
// binaries, leaves enough memory for builds.
func TestReportsInMemory(t *testing.T) {
	manifest, err := os.ReadFile(filepath.Join("..", "..", "..", "deploy", "50-build.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	mebibytes := func(pattern string) int64 {
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
	const report, vet = 4 << 10, 256 // largest report in bytes; memory of go vet in MiB
	ofBuilds := mebibytes(`--parallel=(\d+)`) * (mebibytes(`--max-memory=(\d+)`) + vet)
	left := mebibytes(`\n +ephemeral-storage: \d+Gi\n +memory: (\d+)Mi`) - ofBuilds
	if reports := mebibytes(`--store-size=(\d+)`) * report / resultSize; reports > left/2 {
		t.Errorf("reports can take %d MiB, and builds leave %d for all that is in memory", reports, left)
	}
}

func TestStoreForgetsWhatIsNotUsed(t *testing.T) {
	s := newStore(t, t.TempDir(), 3)
	for _, key := range []string{"a", "b", "c"} {
		put(t, s, key)
	}
	if !has(t, s, "a") {
		t.Error("a was forgotten early")
	}
	put(t, s, "d")
	for key, want := range map[string]bool{"a": true, "b": false, "c": true, "d": true} {
		if has(t, s, key) != want {
			t.Errorf("the store has %s: %t, want %t", key, !want, want)
		}
	}
	if files, _ := os.ReadDir(s.dir); len(files) != 3 {
		t.Errorf("%d files, want those of three", len(files))
	}
}

// TestStoreIsFair has one namespace fill the store and use all of its results.
func TestStoreIsFair(t *testing.T) {
	s := newStore(t, t.TempDir(), 4)
	for _, key := range []string{"modest1", "greedy1", "greedy2", "greedy3", "greedy4", "greedy5"} {
		put(t, s, key)
	}
	for key, want := range map[string]bool{"modest1": true, "greedy1": false, "greedy2": false, "greedy3": true, "greedy4": true, "greedy5": true} {
		if has(t, s, key) != want {
			t.Errorf("the store has %s: %t, want %t", key, !want, want)
		}
	}
}

// TestStoreEndsDownloads removes binaries that are being read. Results that are being downloaded
// are removed last, and their files closed, because an open file still uses disk space.
func TestStoreEndsDownloads(t *testing.T) {
	for name, c := range map[string]struct {
		entries          int
		read, more, gone []string
	}{
		"IdleFirst": {2, []string{"a1"}, []string{"b1", "c1"}, []string{"b1"}},
		"Greedy":    {4, []string{"a1", "a2", "a3"}, []string{"b1", "b2"}, []string{"a1"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t, t.TempDir(), c.entries)
			readers := download(t, s, c.read)
			for _, key := range c.more {
				put(t, s, key)
			}
			for key, file := range readers {
				_, err := io.ReadAll(file)
				if want := slices.Contains(c.gone, key); errors.Is(err, os.ErrClosed) != want {
					t.Errorf("reading %s: %v, want that it is closed: %t", key, err, want)
				}
				_ = file.Close() // may be closed already
			}
			kept := slices.DeleteFunc(slices.Concat(c.read, c.more), func(key string) bool { return !has(t, s, key) })
			want := slices.DeleteFunc(slices.Concat(c.read, c.more), func(key string) bool { return slices.Contains(c.gone, key) })
			if !slices.Equal(kept, want) {
				t.Errorf("the store has %q, want %q", kept, want)
			}
		})
	}
}

// download stores binaries and starts to read them.
func download(t *testing.T, s *store, keys []string) map[string]io.ReadCloser {
	t.Helper()
	readers := map[string]io.ReadCloser{}
	for _, key := range keys {
		put(t, s, key)
		readers[key], _, _ = s.open(key)
	}
	return readers
}

// TestStoreReserves checks that a binary that is being received counts.
func TestStoreReserves(t *testing.T) {
	s := newStore(t, t.TempDir(), 2)
	put(t, s, "a")
	put(t, s, "b")
	release := s.reserve(1)
	if has(t, s, "a") || !has(t, s, "b") {
		t.Error("there is no room for what is reserved, or more than that")
	}
	release()
	release()
	put(t, s, "c")
	if !has(t, s, "b") || !has(t, s, "c") {
		t.Error("what is released still counts")
	}
}

func TestStoreReplaces(t *testing.T) {
	s := newStore(t, t.TempDir(), 3)
	put(t, s, "a")
	file, _, _ := s.open("a")
	defer file.Close() //nolint:errcheck // it was only read
	put(t, s, "a")
	if data, err := io.ReadAll(file); err != nil || string(data) != content {
		t.Errorf("the download goes on with %q, %v", data, err)
	}
	if !has(t, s, "a") || s.size != resultSize+int64(len(content)) {
		t.Errorf("the store has %d bytes", s.size)
	}
}

// TestStoreBeginsEmpty opens a store in which another process has left files.
func TestStoreBeginsEmpty(t *testing.T) {
	dir := t.TempDir()
	put(t, newStore(t, dir, 3), "a")
	if err := os.MkdirAll(filepath.Join(dir, unfinished+"1", "server"), 0o700); err != nil {
		t.Fatal(err)
	}
	s := newStore(t, dir, 3)
	if files, err := os.ReadDir(dir); err != nil || len(files) != 0 || has(t, s, "a") {
		t.Errorf("files: %v, %v, want none", files, err)
	}
}

// TestStoreDropsRemovedBinaries deletes files of the store.
func TestStoreDropsRemovedBinaries(t *testing.T) {
	s := newStore(t, t.TempDir(), 3)
	put(t, s, "a")
	if err := os.Remove(s.path("a")); err != nil {
		t.Fatal(err)
	}
	if has(t, s, "a") || s.size != 0 {
		t.Errorf("the store has a, and %d bytes", s.size)
	}
	put(t, s, "a")
	if !has(t, s, "a") {
		t.Error("a cannot be stored again")
	}
}
