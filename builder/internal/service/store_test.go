package service

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"goless.io/builder/remote"
)

// newStore opens a store for so many bytes of binaries, n of them.
func newStore(t *testing.T, dir string, n int) *store {
	t.Helper()
	keys, err := remote.NewKeys(seed)
	if err != nil {
		t.Fatal(err)
	}
	s, err := openStore(dir, int64(n)*(recordSize+int64(len(content))), keys)
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
	r := record{Namespace: namespace, Report: json.RawMessage(`{}`), Signature: s.keys.Sign(key, sha256.Sum256([]byte(content))), Size: int64(len(content))}
	if err := s.put(key, binary, r); err != nil {
		t.Fatal(err)
	}
}

// has tells whether the store has what was put there. Nothing else may come of it.
func has(t *testing.T, s *store, key string) bool {
	t.Helper()
	file, _, err := s.open(key)
	if errors.Is(err, errUnknown) {
		return false
	}
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close() //nolint:errcheck // it was only read
	data, err := io.ReadAll(file)
	if err != nil || string(data) != content {
		t.Errorf("the store has %q, %v", data, err)
	}
	return true
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
	if files, _ := os.ReadDir(s.dir); len(files) != 6 {
		t.Errorf("%d files, want those of three", len(files))
	}
}

// TestStoreIsFair has one namespace fill the store, and use all that it has.
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

func TestStoreReplaces(t *testing.T) {
	s := newStore(t, t.TempDir(), 3)
	put(t, s, "a")
	put(t, s, "a")
	if !has(t, s, "a") || s.size != recordSize+int64(len(content)) {
		t.Errorf("the store has %d bytes", s.size)
	}
}

// TestStoreReopens is about another process with the same directory.
func TestStoreReopens(t *testing.T) {
	dir := t.TempDir()
	s := newStore(t, dir, 3)
	for i, key := range []string{"a", "b", "c"} {
		put(t, s, key)
		then := time.Now().Add(time.Duration(i-60) * time.Minute)
		if err := os.Chtimes(s.path(key, recordSuffix), then, then); err != nil {
			t.Fatal(err)
		}
		s.stored[key].used = then
	}
	if !has(t, s, "a") {
		t.Error("a was forgotten early")
	}
	for _, rest := range []string{unfinished + "1/server", "nobody" + binarySuffix, "empty" + recordSuffix, "other"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, rest)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, rest), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s = newStore(t, dir, 2)
	for key, want := range map[string]bool{"a": true, "b": false, "c": true, "nobody": false, "empty": false} {
		if has(t, s, key) != want {
			t.Errorf("the store has %s: %t, want %t", key, !want, want)
		}
	}
	if files, _ := os.ReadDir(dir); len(files) != 4 {
		t.Errorf("files: %v, want those of two", files)
	}
}

// TestStoreDropsWhatIsWrong changes what is on disk, while a store is open and
// before one is.
func TestStoreDropsWhatIsWrong(t *testing.T) {
	wrong := map[string]func(s *store) error{
		"Changed": func(s *store) error {
			return os.WriteFile(s.path("a", binarySuffix), []byte("what was BUILT"), 0o600)
		},
		"Truncated": func(s *store) error { return os.Truncate(s.path("a", binarySuffix), 3) },
		"Gone":      func(s *store) error { return os.Remove(s.path("a", binarySuffix)) },
		"Exchanged": func(s *store) error {
			data, err := os.ReadFile(s.path("b", recordSuffix))
			if err != nil {
				return err
			}
			return errors.Join(
				os.WriteFile(s.path("a", recordSuffix), data, 0o600),
				os.WriteFile(s.path("b", binarySuffix), []byte("what is of b !"), 0o600),
				os.Rename(s.path("b", binarySuffix), s.path("a", binarySuffix)))
		},
	}
	for name, spoil := range wrong {
		t.Run(name, func(t *testing.T) {
			t.Run("Open", func(t *testing.T) { testWrong(t, spoil, false) })
			t.Run("Reopened", func(t *testing.T) { testWrong(t, spoil, true) })
		})
	}
}

func testWrong(t *testing.T, spoil func(*store) error, reopen bool) {
	s := newStore(t, t.TempDir(), 3)
	put(t, s, "a")
	put(t, s, "b")
	if err := spoil(s); err != nil {
		t.Fatal(err)
	}
	if reopen {
		s = newStore(t, s.dir, 3)
	}
	if has(t, s, "a") {
		t.Error("the store has a")
	}
	put(t, s, "a")
	if !has(t, s, "a") {
		t.Error("a cannot be stored anew")
	}
}

// TestStoreOfOtherKeys is about a Secret that was made anew.
func TestStoreOfOtherKeys(t *testing.T) {
	s := newStore(t, t.TempDir(), 3)
	put(t, s, "a")
	other, err := remote.NewKeys([]byte("another seed, also of 32 bytes.."))
	if err != nil {
		t.Fatal(err)
	}
	s, err = openStore(s.dir, s.most, other)
	if err != nil {
		t.Fatal(err)
	}
	if has(t, s, "a") {
		t.Error("the store has what other keys have signed")
	}
}
