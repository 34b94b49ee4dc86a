package service

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"goless.io/builder/remote"
)

const (
	// recordSuffix and binarySuffix are those of the two files of a result.
	recordSuffix = ".json"
	binarySuffix = ".bin"

	// unfinished begins the names of what is being made in the store.
	unfinished = "unfinished-"

	// recordSize is what a record counts, in bytes: a report and a signature.
	recordSize = 8 << 10

	// room is what a build needs on the disk at least, in bytes.
	room = 64 << 20
)

// A record says how a build has ended, and vouches for the binary beside it. It
// is there only when the binary is, so it is written last.
type record struct {
	// Namespace is whose it is.
	Namespace string `json:"namespace"`

	// Report is what was told about the build.
	Report json.RawMessage `json:"report"`

	// Signature is that of the binary, and Size its length in bytes. They are
	// missing when there is no binary because the source is at fault.
	Signature string `json:"signature,omitempty"`
	Size      int64  `json:"size,omitempty"`
}

// header renders r for another replica, and recordOf reads that.
func (r record) header() (string, error) {
	data, err := json.Marshal(r)
	return base64.StdEncoding.EncodeToString(data), err
}

func recordOf(header string) (r record, err error) {
	data, err := base64.StdEncoding.DecodeString(header)
	if err == nil {
		err = json.Unmarshal(data, &r)
	}
	if err == nil && (len(r.Report) == 0 || !r.built()) {
		err = errors.New("it is not the record of a binary")
	}
	return r, err
}

// built tells whether there is a binary.
func (r record) built() bool { return r.Signature != "" }

// A store keeps results on disk, in a bounded space. What was not used for longest
// goes first.
type store struct {
	dir  string
	most int64
	keys *remote.Keys

	mu     sync.Mutex
	stored map[string]*stored
	size   int64
}

// stored is what memory knows of a result.
type stored struct {
	record
	used     time.Time // for the last time
	verified time.Time // when the file with the right content was written
}

func (s *stored) size() int64 { return s.Size + recordSize }

// openStore opens the directory, and throws out what is not complete. What is wrong,
// or signed by other keys, is found out when somebody wants it.
func openStore(dir string, most int64, keys *remote.Keys) (*store, error) {
	s := &store{dir: dir, most: most, keys: keys, stored: map[string]*stored{}}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the store: %w", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("opening the store: %w", err)
	}
	for _, entry := range entries {
		key, isRecord := strings.CutSuffix(entry.Name(), recordSuffix)
		if isRecord && s.load(key, entry) == nil {
			continue
		}
		key, isBinary := strings.CutSuffix(entry.Name(), binarySuffix)
		if isBinary && exists(s.path(key, recordSuffix)) {
			continue // loading the record decides, before or after
		}
		if err := os.RemoveAll(filepath.Join(dir, entry.Name())); err != nil {
			return nil, fmt.Errorf("cleaning the store: %w", err)
		}
	}
	s.evict(0)
	return s, nil
}

// load reads the record of an earlier process.
func (s *store) load(key string, entry fs.DirEntry) error {
	info, err := entry.Info()
	if err != nil {
		return err
	}
	data, err := os.ReadFile(s.path(key, recordSuffix))
	if err != nil {
		return err
	}
	known := &stored{used: info.ModTime()}
	if err := json.Unmarshal(data, &known.record); err != nil {
		return err
	}
	if !known.built() && len(known.Report) == 0 {
		return errors.New("an empty record")
	}
	if binary, err := os.Stat(s.path(key, binarySuffix)); known.built() && (err != nil || binary.Size() != known.Size) {
		return errors.New("no such binary")
	}
	s.stored[key] = known
	s.size += known.size()
	return nil
}

// find returns what is known of key, as something that was used. Of a binary that
// is not there any more, or not what was signed, nothing is known.
func (s *store) find(key string) (record, bool) {
	file, known, err := s.open(key)
	if err == nil {
		_ = file.Close() // it was only read
		return known, true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if failed := s.stored[key]; failed != nil && !failed.built() {
		s.touch(key, failed)
		return failed.record, true
	}
	return record{}, false
}

// touch remembers, on disk too, that a result was used. Once a minute is enough.
func (s *store) touch(key string, known *stored) {
	now := time.Now()
	if now.Sub(known.used) > time.Minute {
		_ = os.Chtimes(s.path(key, recordSuffix), now, now) // the next process guesses worse
	}
	known.used = now
}

// temporary makes a directory for something that put is to take, and before that
// the one of the store where somebody has removed it.
func (s *store) temporary() (string, error) {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return "", fmt.Errorf("making the store: %w", err)
	}
	s.evict(room)
	dir, err := os.MkdirTemp(s.dir, unfinished)
	if err != nil {
		return "", fmt.Errorf("making a directory in the store: %w", err)
	}
	return dir, nil
}

// put takes a result. The binary is a file in a temporary directory, if there is
// one.
func (s *store) put(key, binary string, r record) error {
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	dir, err := s.temporary()
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // the next process does it otherwise
	written := filepath.Join(dir, "record")
	if err := os.WriteFile(written, data, 0o600); err != nil {
		return fmt.Errorf("storing a result: %w", err)
	}
	if err := s.move(key, binary, written, r); err != nil {
		return fmt.Errorf("storing a result: %w", err)
	}
	s.evict(0)
	return nil
}

// move puts the files of a result in their places.
func (s *store) move(key, binary, written string, r record) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget(key)
	if binary != "" {
		if err := os.Rename(binary, s.path(key, binarySuffix)); err != nil {
			return err
		}
	}
	if err := os.Rename(written, s.path(key, recordSuffix)); err != nil {
		return err
	}
	known := &stored{record: r, used: time.Now()}
	if info, err := os.Stat(s.path(key, binarySuffix)); err == nil {
		known.verified = info.ModTime() // it has just been signed
	}
	s.stored[key] = known
	s.size += known.size()
	return nil
}

// forget must be called with the lock.
func (s *store) forget(key string) {
	if known := s.stored[key]; known != nil {
		delete(s.stored, key)
		s.size -= known.size()
		_ = os.Remove(s.path(key, recordSuffix)) // a binary without one is none
		_ = os.Remove(s.path(key, binarySuffix))
	}
}

// evict forgets results until they keep to their bound and so many bytes of the
// disk are free, or nothing is left to forget.
func (s *store) evict(needed uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fits := func() bool { return s.size <= s.most && freeSpace(s.dir) >= needed }
	if fits() {
		return
	}
	for _, key := range s.dispensable() {
		if s.forget(key); fits() {
			return
		}
	}
}

// dispensable returns all keys, what was not used for longest first. A namespace
// that has more than half of the store goes before all others, so that it does not
// throw out what they need.
func (s *store) dispensable() []string {
	sizes := map[string]int64{}
	for _, known := range s.stored {
		sizes[known.Namespace] += known.size()
	}
	modest := func(key string) int {
		if sizes[s.stored[key].Namespace] > s.most/2 {
			return 0
		}
		return 1
	}
	return slices.SortedFunc(maps.Keys(s.stored), func(a, b string) int {
		return cmp.Or(cmp.Compare(modest(a), modest(b)), s.stored[a].used.Compare(s.stored[b].used))
	})
}

func (s *store) path(key, suffix string) string { return filepath.Join(s.dir, key+suffix) }

// freeSpace returns what is left for this process on the disk of dir, in bytes, or
// more than there can be if nobody knows.
func freeSpace(dir string) uint64 {
	var disk syscall.Statfs_t
	if err := syscall.Statfs(dir, &disk); err != nil {
		return ^uint64(0)
	}
	return disk.Bavail * uint64(disk.Bsize)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
