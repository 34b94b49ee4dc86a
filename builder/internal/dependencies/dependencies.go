// Package dependencies keeps what a build has fetched and compiled beside its author's own
// packages, for the next build that depends on the same: usually that of the same function
// after a change of its handler. What a build leaves is a set, which nobody changes any
// more. Only builds with the same key find a set, and the namespace is part of the key:
// nothing that one tenant could have influenced reaches another.
package dependencies

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

// Key returns the key of the set for builds of a namespace which agree in all inputs.
func Key(namespace string, inputs ...string) string {
	h := sha256.New()
	for _, part := range append([]string{namespace}, inputs...) {
		fmt.Fprintf(h, "%d %s", len(part), part)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// A Store keeps sets in a directory, in a limited space. When there is no room, it removes sets
// that nobody uses, of the namespace that takes the most, and of these the one that was not used
// for the longest time. A nil Store keeps nothing.
type Store struct {
	dir  string
	most int64 // bytes

	mu   sync.Mutex
	sets map[string]*Set // by key
	kept int             // sets, ever

	removing sync.WaitGroup // files, which only tests wait for
}

// A Set is what a build has left.
type Set struct {
	// Dir holds it. It is an absolute path.
	Dir string

	namespace string
	size      int64
	used      time.Time // the last time
	users     int       // builds that use it now
}

// Open makes a directory an empty store of so many bytes. It removes what an earlier process
// has left there.
func Open(dir string, most int64) (*Store, error) {
	dir, err := filepath.Abs(dir)
	if err == nil {
		err = sandbox.RemoveAll(dir)
	}
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	if err != nil {
		return nil, fmt.Errorf("making a directory for dependencies: %w", err)
	}
	return &Store{dir: dir, most: most, sets: map[string]*Set{}}, nil
}

// Use returns the set with a key, or nil if there is none. The caller has to Release it.
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

// Release says that a build does not use a set any more. It accepts nil.
func (s *Store) Release(set *Set) {
	if set == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	set.users--
}

// Keep moves a directory into the store, as the set with a key. It has to be on the same
// disk. What there is already, or what is larger than a quarter of the store, is not kept.
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

// evict removes sets that nobody uses until the others fit into the store. There are always
// enough of these: nobody uses the newest yet, without which all did fit. The caller must hold
// the lock.
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

// drop forgets a set and removes its files. The caller must hold the lock, so it does not
// wait: that may be many thousand files.
func (s *Store) drop(key string) {
	set := s.sets[key]
	delete(s.sets, key)
	s.removing.Go(func() { _ = sandbox.RemoveAll(set.Dir) }) // if it stays, the next process removes it
}

// minFileSize is what a file or a directory counts at least, in bytes. An empty file takes no
// space, but it takes one of the files that a disk can have, of which it has one for some
// thousand bytes.
const minFileSize = 4096

// sizeOf returns the space that a directory takes on the disk with all that is below it, in
// bytes. The error is about a FIFO, a socket or a device, too, which would keep the next build
// waiting. A symbolic link is part of a module cache, and leads no build to what it may not read.
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
