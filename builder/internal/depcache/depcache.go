// Package depcache caches the downloaded modules and the compiled packages of dependencies between
// builds. So a build after a change to the handler does not repeat that work. The dependencies of
// one build form an immutable set, stored under a key, the hash of the namespace and of the inputs
// that determine the dependencies. A build uses the set with its own key; if there is none, it
// creates the set when it succeeds. Because of the namespace, no tenant can influence the builds of
// another.
package depcache

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"goless.io/builder/internal/sandbox"
)

// Key returns the key of the set for builds of a namespace with equal inputs.
func Key(namespace string, inputs ...string) string {
	h := sha256.New()
	for _, part := range append([]string{namespace}, inputs...) {
		fmt.Fprintf(h, "%d %s", len(part), part)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// A Store keeps sets in a directory with limited space. To make room, it removes unused sets of the
// namespace that uses the most space, least recently used first. A nil Store keeps nothing.
type Store struct {
	dir  string
	most int64 // in bytes

	mu   sync.Mutex
	sets map[string]*Set // by key
	kept int             // number of sets ever kept

	removing sync.WaitGroup // removals of files, for tests
}

// A Set contains the dependencies of a build.
type Set struct {
	// Dir is the absolute path of its directory.
	Dir string

	namespace string
	size      int64
	used      time.Time // last use
	users     int       // number of builds that use it now
}

// Open creates an empty store with a size limit in bytes. It deletes everything that is in dir.
func Open(dir string, most int64) (*Store, error) {
	dir, err := filepath.Abs(dir)
	if err == nil {
		err = sandbox.RemoveAll(dir)
	}
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	if err != nil {
		return nil, fmt.Errorf("creating a directory for dependencies: %w", err)
	}
	return &Store{dir: dir, most: most, sets: map[string]*Set{}}, nil
}

// Use returns the set for a key, or nil. The caller must Release it.
func (s *Store) Use(key string) *Set {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	set := s.sets[key]
	if set == nil {
		return nil
	}
	if _, err := os.Stat(set.Dir); err != nil {
		s.drop(key)
		return nil
	}
	set.used = time.Now()
	set.users++
	return set
}

// Release ends the use of a set by a build. set may be nil.
func (s *Store) Release(set *Set) {
	if set == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	set.users--
}

// Keep moves a directory into the store as the set for a key. The directory must be on the same
// disk. Keep ignores a directory if the key already has a set, or if it is larger than a quarter of
// the store.
func (s *Store) Keep(namespace, key, dir string) error {
	if s == nil {
		return nil
	}
	size, err := sizeOf(dir)
	if err != nil {
		return fmt.Errorf("measuring dependencies: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sets[key] != nil || size > s.most/4 {
		return nil
	}
	s.kept++
	set := &Set{Dir: filepath.Join(s.dir, strconv.Itoa(s.kept)), namespace: namespace, size: size, used: time.Now()}
	if err := os.Rename(dir, set.Dir); err != nil {
		return fmt.Errorf("keeping dependencies: %w", err)
	}
	s.sets[key] = set
	s.evict()
	return nil
}

// evict removes unused sets until the others fit into the store. That is always possible: the
// newest set is unused, and without it all others did fit. The caller must hold the lock.
func (s *Store) evict() {
	var total int64
	of := map[string]int64{}
	for _, set := range s.sets {
		total += set.size
		of[set.namespace] += set.size
	}
	for total > s.most {
		unused := slices.DeleteFunc(slices.Collect(maps.Keys(s.sets)), func(key string) bool { return s.sets[key].users > 0 })
		key := slices.MinFunc(unused, func(a, b string) int {
			x, y := s.sets[a], s.sets[b]
			return cmp.Or(cmp.Compare(of[y.namespace], of[x.namespace]), x.used.Compare(y.used))
		})
		total -= s.sets[key].size
		of[s.sets[key].namespace] -= s.sets[key].size
		s.drop(key)
	}
}

// drop removes a set, and its files in the background, because these may be many thousands. The
// caller must hold the lock.
func (s *Store) drop(key string) {
	set := s.sets[key]
	delete(s.sets, key)
	s.removing.Go(func() { _ = sandbox.RemoveAll(set.Dir) }) // if this fails, the next process removes them
}

// minFileSize is the minimum size that a file or directory counts, in bytes. An empty file uses no
// space but an inode, and disks have one inode for several thousand bytes.
const minFileSize = 4096

// sizeOf returns the disk space of a directory tree in bytes. It fails if the tree contains a FIFO,
// a socket or a device, which could block the next build. Symbolic links are allowed: they are part
// of a module cache, and do not give a build access to more files.
func sizeOf(dir string) (size int64, err error) {
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.Type()&^(fs.ModeDir|fs.ModeSymlink) != 0 {
			return fmt.Errorf("%s is not a regular file but %s", path, entry.Type())
		}
		info, err := entry.Info()
		if err == nil {
			size += max(sandbox.DiskUse(info), minFileSize)
		}
		return err
	})
	return size, err
}
