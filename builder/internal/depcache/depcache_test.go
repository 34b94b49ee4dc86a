package depcache

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// block is the minimum space of a file on common disks, in bytes.
const block = 4096

// keep keeps a set with a file of size blocks.
func keep(t *testing.T, s *Store, namespace, key string, size int) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "left")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "file"), []byte(strings.Repeat("x", size*block)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.Keep(namespace, key, dir); err != nil {
		t.Fatal(err)
	}
}

func open(t *testing.T) *Store {
	t.Helper()
	s, err := Open(filepath.Join(t.TempDir(), "store"), 110*block)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// has returns the keys for which a set exists.
func has(s *Store, keys ...string) []string {
	return slices.DeleteFunc(keys, func(key string) bool {
		set := s.Use(key)
		defer s.Release(set)
		return set == nil
	})
}

func TestKeep(t *testing.T) {
	s := open(t)
	keep(t, s, "a", "one", 20)
	set := s.Use("one")
	if set == nil {
		t.Fatal("it is not kept")
	}
	data, err := os.ReadFile(filepath.Join(set.Dir, "file"))
	if err != nil || len(data) != 20*block {
		t.Errorf("it holds %d bytes (%v)", len(data), err)
	}
	if s.Use("two") != nil {
		t.Error("Use returned a set that was not kept")
	}
	keep(t, s, "a", "two", 28) // more than a quarter of the store
	if s.Use("two") != nil {
		t.Error("a set is kept that is too large")
	}
}

// TestEvict checks that the least recently used set of the namespace that uses the most space is
// removed first.
func TestEvict(t *testing.T) {
	s := open(t)
	keep(t, s, "modest", "old", 20)
	for _, key := range []string{"a", "b", "c", "d"} {
		keep(t, s, "greedy", key, 20)
	}
	has(s, "a") // marks the set as used
	keep(t, s, "greedy", "e", 20)
	if got, want := has(s, "old", "a", "b", "c", "d", "e"), []string{"old", "a", "c", "d", "e"}; !slices.Equal(got, want) {
		t.Errorf("these are left: %v, want %v", got, want)
	}
	s.removing.Wait()
	left, err := os.ReadDir(s.dir)
	if err != nil || len(left) != 5 {
		t.Errorf("%d directories are left (%v)", len(left), err)
	}
}

// TestEvictUsed checks that sets in use are kept, and others removed.
func TestEvictUsed(t *testing.T) {
	s := open(t)
	keep(t, s, "a", "used", 20)
	set := s.Use("used")
	for _, key := range []string{"b", "c", "d", "e", "f"} {
		keep(t, s, "a", key, 20)
	}
	s.removing.Wait()
	left, err := os.ReadDir(s.dir)
	if err != nil || len(left) != 5 {
		t.Errorf("%d directories are left (%v), which is more than there is room for", len(left), err)
	}
	if got, want := has(s, "used", "b", "c", "d", "e", "f"), []string{"used", "c", "d", "e", "f"}; !slices.Equal(got, want) {
		t.Errorf("these are left: %v, want %v", got, want)
	}
	s.Release(set)
}

// TestSizeOnDisk checks that small files count more than their length, and that empty ones count
// too, because the number of files on a disk is limited.
func TestSizeOnDisk(t *testing.T) {
	for _, content := range []string{"", "x"} {
		dir := t.TempDir()
		for i := range 20 {
			if err := os.WriteFile(filepath.Join(dir, strconv.Itoa(i)), []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if size, err := sizeOf(dir); err != nil || size < 20*block {
			t.Errorf("20 files with %q take %d bytes (%v), want at least a block each", content, size, err)
		}
	}
}

// TestKey checks that the parts of a key cannot be shifted to get the key of another namespace.
func TestKey(t *testing.T) {
	keys := map[string]bool{}
	for _, parts := range [][]string{{"a", "b", "c"}, {"a", "bc"}, {"ab", "c"}, {"a", "b c"}, {"b", "a", "c"}, {"a", "b"}, {"a"}, {"a", ""}} {
		keys[Key(parts[0], parts[1:]...)] = true
	}
	if len(keys) != 8 {
		t.Errorf("there are %d keys of 8 inputs", len(keys))
	}
}

// TestKeepRegularFiles checks that a directory is kept only if it contains nothing that blocks the
// next build.
func TestKeepRegularFiles(t *testing.T) {
	for name, kept := range map[string]bool{"file": true, "link": true, "socket": false} {
		t.Run(name, func(t *testing.T) {
			s, dir := open(t), t.TempDir()
			path := filepath.Join(dir, name)
			var err error
			switch name {
			case "file":
				err = os.WriteFile(path, nil, 0o600)
			case "link":
				err = os.Symlink(dir, path)
			case "socket":
				_, err = net.Listen("unix", path)
			}
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Keep("a", "key", dir); (err == nil) != kept || slices.Contains(has(s, "key"), "key") != kept {
				t.Errorf("Keep: %v, want that it is kept: %t", err, kept)
			}
		})
	}
}
