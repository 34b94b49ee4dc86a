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
	// unfinished begins the names of directories for binaries that are not stored yet.
	unfinished = "unfinished-"

	// resultSize is what a result counts in the size of the store, in bytes, besides its
	// binary. Its report has 4 KiB at most, but is in memory, of which there is less than
	// of the disk.
	resultSize = 64 << 10
)

// A result says how a build has ended.
type result struct {
	// Namespace is that of the order.
	Namespace string `json:"namespace"`

	// Report is what the client was told about the build.
	Report json.RawMessage `json:"report"`

	// Signature is that of the binary, and Size its length in bytes. They are missing
	// if there is no binary because the source is at fault.
	Signature string `json:"signature,omitempty"`
	Size      int64  `json:"size,omitempty"`
}

// header encodes r for a header of HTTP, and resultOf decodes it.
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
		err = errors.New("it is not the result of a binary")
	}
	return r, err
}

// built reports whether there is a binary.
func (r result) built() bool { return r.Signature != "" }

// A store keeps the results of builds in a limited space: reports in memory, and binaries
// on disk. It removes first what was not used for the longest time, and closes a binary that it
// removes while a download reads it, because the disk keeps a file as long as it is open.
type store struct {
	dir  string
	most int64 // bytes

	mu     sync.Mutex
	stored map[string]*stored // by key
	size   int64              // bytes, with those that are reserved
}

// stored is a result.
type stored struct {
	result
	used    time.Time // the last time
	readers map[*reader]bool
}

func (s *stored) size() int64 { return s.Size + resultSize }

// openStore makes a directory an empty store of so many bytes. It removes what an earlier
// process has left there.
func openStore(dir string, most int64) (*store, error) {
	if err := sandbox.RemoveAll(dir); err != nil {
		return nil, fmt.Errorf("cleaning the store: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the store: %w", err)
	}
	return &store{dir: dir, most: most, stored: map[string]*stored{}}, nil
}

// find returns the result of key, if there is one and its binary is still there.
func (s *store) find(key string) (found result, known bool) {
	file, found, known := s.open(key)
	if file != nil {
		_ = file.Close() // it was only read
	}
	return found, known
}

// A reader reads a binary. The store closes it when it removes the binary.
type reader struct {
	*os.File
	store *store
	of    *stored
}

// Close closes the binary.
func (r *reader) Close() error {
	r.store.mu.Lock()
	delete(r.of.readers, r)
	r.store.mu.Unlock()
	return r.File.Close()
}

// open returns the result of key, if there is one, and opens its binary, which the caller
// closes. The reader is nil if there is none because the source does not compile. If somebody
// has removed it, open forgets the result.
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

// temporary makes a directory in the store for a binary that put is to take. If somebody
// has removed the directory of the store, it makes that one, too.
func (s *store) temporary() (string, error) {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return "", fmt.Errorf("making the store: %w", err)
	}
	dir, err := os.MkdirTemp(s.dir, unfinished)
	if err != nil {
		return "", fmt.Errorf("making a directory in the store: %w", err)
	}
	return dir, nil
}

// put stores a result. It moves the binary, a file in a temporary directory, unless binary
// is empty, or the store has an equal one, which may be being downloaded.
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

// reserve makes room for a binary of so many bytes that is being received. The caller calls
// release before it puts the binary into the store, or when there is none.
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

// forget removes a result and closes its binary. The caller must hold the lock.
func (s *store) forget(key string) {
	if known := s.stored[key]; known != nil {
		for r := range known.readers {
			_ = r.File.Close() // it was only read
		}
		delete(s.stored, key)
		s.size -= known.size()
		_ = os.Remove(s.path(key)) // it may be gone
	}
}

// evict removes results until the rest fits into the store: those first that are not being
// downloaded and were not used for the longest time. A namespace that takes more than half of the
// store loses its own, downloaded or not, and does not displace those of others. The caller must
// hold the lock.
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

// hash returns the SHA-256 of what a file holds from its current offset on.
func hash(file io.Reader) (sum [sha256.Size]byte, err error) {
	h := sha256.New()
	if _, err := io.Copy(h, file); err != nil {
		return sum, fmt.Errorf("reading a binary: %w", err)
	}
	return [sha256.Size]byte(h.Sum(nil)), nil
}
