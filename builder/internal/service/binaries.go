package service

import (
	"context"
	"crypto/subtle"
	"errors"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"goless.io/builder"
	"goless.io/builder/remote"
)

const (
	// maxWait is the longest time that a request may wait for a binary.
	maxWait = time.Minute

	// peerHeader marks a request of another replica, which is not passed on.
	peerHeader = "Goless-Peer"

	// recordHeader gives the record to another replica.
	recordHeader = "Goless-Record"
)

// authorized compares tokens in a time that does not depend on them.
func (s *Service) authorized(r *http.Request, token string) bool {
	return subtle.ConstantTimeCompare([]byte(bearer(r)), []byte(token)) == 1
}

// serveBinary answers GET /v1/binaries/{key}.
func (s *Service) serveBinary(w http.ResponseWriter, r *http.Request) {
	key := r.PathValue("key")
	if !s.authorized(r, s.config.Keys.Capability(key)) {
		http.Error(w, "this token does not fetch this binary", http.StatusForbidden)
		return
	}
	// Without a body nothing has to be read, but that the client goes away.
	if err := http.NewResponseController(w).SetReadDeadline(time.Time{}); r.ContentLength != 0 || err != nil {
		http.Error(w, "a question has no body", http.StatusBadRequest)
		return
	}
	byPeer := r.Header.Get(peerHeader) != ""
	asked := time.Now()
	ctx, cancel := context.WithTimeout(r.Context(), preferredWait(r))
	defer cancel()
	file, found := s.await(ctx, key, !byPeer)
	if file == nil {
		s.explain(w, key)
		return
	}
	defer file.Close() //nolint:errcheck // it was only read
	header := w.Header()
	header.Set(remote.SignatureHeader, found.Signature)
	header.Set("Content-Type", "application/octet-stream")
	header.Set("Content-Length", strconv.FormatInt(found.Size, 10))
	if encoded, err := found.header(); byPeer && err == nil {
		header.Set(recordHeader, encoded)
	}
	waited := time.Since(asked)
	sent, err := io.Copy(&patient{w, http.NewResponseController(w)}, file)
	s.metrics.fetched(byPeer)
	s.config.Log.Info("fetch", "key", short(key), "peer", byPeer, "bytes", sent, "complete", err == nil,
		"waited", rounded(waited), "duration", rounded(time.Since(asked)))
}

// preferredWait returns how long a request wants to wait: Prefer, of RFC 7240.
func preferredWait(r *http.Request) time.Duration {
	for preference := range strings.SplitSeq(r.Header.Get("Prefer"), ",") {
		value, ok := strings.CutPrefix(strings.TrimSpace(preference), "wait=")
		if seconds, err := strconv.Atoi(value); ok && err == nil && seconds > 0 {
			return min(time.Duration(seconds)*time.Second, maxWait)
		}
	}
	return 0
}

// await returns the binary of key as soon as it is there, or nil when it will not
// be before ctx ends. Whoever waits for it keeps its build going. With peers, the
// other replicas are asked for what is not built here.
func (s *Service) await(ctx context.Context, key string, peers bool) (*os.File, record) {
	for ctx.Err() == nil && !s.ended() {
		news := s.news.wait()
		if file, found, known := s.look(key); known {
			return file, found
		}
		if going := s.builds.join(key); going != nil {
			s.wait(ctx, going.done)
			s.builds.leave(key, going)
			continue
		}
		if peers {
			defer s.ask(key)()
			peers = false
		}
		s.wait(ctx, news)
	}
	file, found, _ := s.look(key)
	return file, found
}

// look returns what the store knows about a binary: it, or only that there is none
// because the source is at fault.
func (s *Service) look(key string) (file *os.File, found record, known bool) {
	file, found, err := s.store.open(key)
	if err == nil {
		return file, found, true
	}
	if errors.Is(err, errSpoiled) {
		s.config.Log.Warn("a binary was dropped", "key", short(key), "error", err)
	}
	found, known = s.store.find(key)
	return nil, found, known && !found.built()
}

// wait returns when something is done, when ctx ends, or the service does.
func (s *Service) wait(ctx context.Context, done <-chan struct{}) {
	select {
	case <-done:
	case <-ctx.Done():
	case <-s.life.Done():
	}
}

// explain says why there is no binary.
func (s *Service) explain(w http.ResponseWriter, key string) {
	if s.ended() {
		busy(w, http.StatusServiceUnavailable, errEnding.Error())
		return
	}
	message := "not known here: the operator sends the source again"
	if s.builds.has(key) {
		message = "still compiling"
	} else if known, ok := s.store.find(key); ok && !known.built() {
		message = string(builder.CompileFailed) + ": the source does not compile, see the status of the Function"
	}
	http.Error(w, message, http.StatusNotFound)
}

// patient is a client that may be slow, and must not stand still.
type patient struct {
	w       io.Writer
	control *http.ResponseController
}

// Write gives each part its own time.
func (p *patient) Write(part []byte) (int, error) {
	if err := p.control.SetWriteDeadline(time.Now().Add(writePatience)); err != nil {
		return 0, err
	}
	return p.w.Write(part)
}
