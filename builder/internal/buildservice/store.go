package buildservice

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"goless.io/builder/internal/sandbox"
)

const (
	// unfinished is the prefix of directories for binaries that are not stored yet.
	unfinished = "unfinished-"

	// resultSize is the size that a result counts in the store in addition to its binary, in bytes.
	// Its report has at most 4 KiB but is kept in memory, which is scarcer than disk space.
	resultSize = 64 << 10
)

// A result is the outcome of a build.
type result struct {
	// Namespace of the order.
	Namespace string `json:"namespace"`

	// Tests reports whether the binary contains the tests of the source.
	Tests bool `json:"tests,omitempty"`

	// Report is the report that the client received.
	Report json.RawMessage `json:"report"`

	// Signature and Size, in bytes, of the binary. Both are unset if the source does not compile.
	Signature string `json:"signature,omitempty"`
	Size      int64  `json:"size,omitempty"`
}

// header encodes r for an HTTP header. resultOf decodes it.
func (r result) header() (string, error) {
	data, err := json.Marshal(r)
	return base64.StdEncoding.EncodeToString(data), err
}

func resultOf(header string) (r result, err error) {
	data, err := base64.StdEncoding.DecodeString(header)
	if err == nil {
		err = json.Unmarshal(data, &r)
	}
	if err == nil && (len(r.Report) == 0 || !r.built()) {
		err = errors.New("not the result of a binary")
	}
	return r, err
}

// built reports whether the result has a binary.
func (r result) built() bool { return r.Signature != "" }

// A store keeps results of builds in limited space: reports in memory, binaries on disk. It evicts
// the least recently used results first. When it removes a binary that is being downloaded, it
// closes the file, because an open file still occupies disk space.
type store struct {
	dir  string
	most int64 // size limit in bytes

	mu     sync.Mutex
	stored map[string]*stored // by key
	size   int64              // in bytes, including reservations
}

// stored is a result in the store.
type stored struct {
	result
	used    time.Time // last use
	readers map[*reader]bool
}

func (s *stored) size() int64 { return s.Size + resultSize }

// openStore creates an empty store with a size limit in bytes. It deletes everything that is in
// dir.
func openStore(dir string, most int64) (*store, error) {
	if err := sandbox.RemoveAll(dir); err != nil {
		return nil, fmt.Errorf("cleaning the store: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("creating the store: %w", err)
	}
	return &store{dir: dir, most: most, stored: map[string]*stored{}}, nil
}

// find returns the result for key, if it is stored and its binary still exists.
func (s *store) find(key string) (found result, known bool) {
	file, found, known := s.open(key)
	if file != nil {
		_ = file.Close() // only read
	}
	return found, known
}

// A reader reads a binary. The store closes it when it removes the binary.
type reader struct {
	*os.File
	store *store
	of    *stored
}

// Close closes the file and removes the reader from the store.
func (r *reader) Close() error {
	r.store.mu.Lock()
	delete(r.of.readers, r)
	r.store.mu.Unlock()
	return r.File.Close()
}

// open returns the result for key, if it is stored, and opens its binary. The caller must close the
// reader, which is nil if the result has no binary because the source does not compile. If the file
// was deleted, open removes the result.
func (s *store) open(key string) (opened *reader, found result, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	entry := s.stored[key]
	if entry == nil {
		return nil, result{}, false
	}
	if entry.built() {
		file, err := os.Open(s.path(key))
		if err != nil {
			s.forget(key)
			return nil, result{}, false
		}
		opened = &reader{file, s, entry}
		entry.readers[opened] = true
	}
	entry.used = time.Now()
	return opened, entry.result, true
}

// temporary creates a directory in the store for a binary to pass to put. It recreates the
// directory of the store if that was deleted.
func (s *store) temporary() (string, error) {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return "", fmt.Errorf("creating the store: %w", err)
	}
	dir, err := os.MkdirTemp(s.dir, unfinished)
	if err != nil {
		return "", fmt.Errorf("creating a directory in the store: %w", err)
	}
	return dir, nil
}

// put stores a result. Unless binary is empty, it moves that file from its temporary directory into
// the store. It keeps an equal binary that the store already has, which may be being downloaded.
func (s *store) put(key, binary string, r result) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.stored[key]; known != nil && known.built() && known.Signature == r.Signature {
		if _, err := os.Stat(s.path(key)); err == nil {
			known.used = time.Now()
			return nil
		}
	}
	s.forget(key)
	if binary != "" {
		if err := os.Rename(binary, s.path(key)); err != nil {
			return fmt.Errorf("storing a binary: %w", err)
		}
	}
	added := &stored{result: r, used: time.Now(), readers: map[*reader]bool{}}
	s.stored[key] = added
	s.size += added.size()
	s.evict()
	return nil
}

// reserve makes room for a binary of the given size that is being received. The caller must call
// release before it calls put, or when receiving fails.
func (s *store) reserve(bytes int64) (release func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.size += bytes
	s.evict()
	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.size -= bytes
	})
}

// forget removes a result and closes its readers. The caller must hold the lock.
func (s *store) forget(key string) {
	if known := s.stored[key]; known != nil {
		for r := range known.readers {
			_ = r.File.Close() // only read
		}
		delete(s.stored, key)
		s.size -= known.size()
		_ = os.Remove(s.path(key)) // may be gone already
	}
}

// evict removes results until the store is within its limit: first those that are not being
// downloaded, least recently used first. A namespace that uses more than half of the store loses
// its own results before those of other namespaces are removed, even if they are being downloaded.
// The caller must hold the lock.
func (s *store) evict() {
	if s.size <= s.most {
		return
	}
	sizes := map[string]int64{}
	for _, known := range s.stored {
		sizes[known.Namespace] += known.size()
	}
	rank := func(key string) (rank int) {
		known := s.stored[key]
		if sizes[known.Namespace] <= s.most/2 {
			rank += 2
		}
		if len(known.readers) > 0 {
			rank++
		}
		return rank
	}
	victims := slices.SortedFunc(maps.Keys(s.stored), func(a, b string) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), s.stored[a].used.Compare(s.stored[b].used))
	})
	for _, key := range victims {
		if s.size <= s.most {
			return
		}
		s.forget(key)
	}
}

func (s *store) path(key string) string { return filepath.Join(s.dir, key) }

// hash returns the SHA-256 of the content of a file from its current offset.
func hash(file io.Reader) (sum [sha256.Size]byte, err error) {
	h := sha256.New()
	if _, err := io.Copy(h, file); err != nil {
		return sum, fmt.Errorf("reading a binary: %w", err)
	}
	return [sha256.Size]byte(h.Sum(nil)), nil
}
