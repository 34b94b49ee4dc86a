package service

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
)

// errUnknown says that the store has no such binary, and errSpoiled that it has none
// any more because somebody has changed it.
var (
	errUnknown = errors.New("not stored here")
	errSpoiled = fmt.Errorf("%w any more", errUnknown)
)

// hash returns the hash of a file's content.
func hash(file io.Reader) (sum [sha256.Size]byte, err error) {
	h := sha256.New()
	if _, err := io.Copy(h, file); err != nil {
		return sum, fmt.Errorf("reading a binary: %w", err)
	}
	return [sha256.Size]byte(h.Sum(nil)), nil
}

// open opens the binary of key, which the caller closes. What is not what was
// signed is dropped, and the error is that of a binary that was never there.
func (s *store) open(key string) (*os.File, record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.stored[key]
	if known == nil || !known.built() {
		return nil, record{}, errUnknown
	}
	file, err := os.Open(s.path(key, binarySuffix))
	if err != nil {
		s.forget(key)
		return nil, record{}, fmt.Errorf("%w: %w", errSpoiled, err)
	}
	if err := s.verify(key, known, file); err != nil {
		_ = file.Close() // it was only read
		s.forget(key)
		return nil, record{}, fmt.Errorf("%w: %w", errSpoiled, err)
	}
	s.touch(key, known)
	return file, known.record, nil
}

// verify compares the content of a file with its signature, unless that was done
// and nobody has written it since.
func (s *store) verify(key string, known *stored, file *os.File) error {
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if info.Size() != known.Size {
		return fmt.Errorf("it has %d bytes and not %d", info.Size(), known.Size)
	}
	if !known.verified.IsZero() && info.ModTime().Equal(known.verified) {
		return nil
	}
	content, err := hash(file)
	if err != nil {
		return err
	}
	if err := s.keys.Verify(key, content, known.Signature); err != nil {
		return err
	}
	known.verified = info.ModTime()
	_, err = file.Seek(0, io.SeekStart)
	return err
}
