package buildservice

import (
	"context"
	"crypto/subtle"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/singleflight"

	"goless.io/builder"
	"goless.io/builder/remote"
)

const (
	// maxWait is the longest time that a request may wait for a binary.
	maxWait = time.Minute

	// peerHeader holds the token of the service in requests of other replicas, which
	// are answered without asking other replicas in turn.
	peerHeader = "Goless-Peer"

	// minRate is the slowest transfer of a binary, in bytes per second.
	minRate = 1 << 20

	// maxDownloads is how many binaries of a namespace are sent to one client, which is an address, at a time.
	maxDownloads = 16

	// resultHeader holds the result of a binary in answers to other replicas.
	resultHeader = "Goless-Record"
)

// equal compares tokens in a time that does not depend on their content.
func equal(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// serveBinary answers GET of /v1/binaries/{key}.
func (s *Service) serveBinary(w http.ResponseWriter, r *http.Request) {
	key := r.PathValue("key")
	if !equal(bearer(r), s.config.Keys.Capability(key)) {
		http.Error(w, "this token does not fetch this binary", http.StatusForbidden)
		return
	}
	if r.ContentLength != 0 {
		http.Error(w, "a request for a binary has no body", http.StatusBadRequest)
		return
	}
	byPeer := equal(r.Header.Get(peerHeader), s.config.Keys.Token())
	admit(w, r, !byPeer)
	// Without a read deadline the server only notices when the client disconnects.
	if err := http.NewResponseController(w).SetReadDeadline(time.Time{}); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	asked := time.Now()
	ctx, cancel := context.WithTimeout(r.Context(), preferredWait(r))
	defer cancel()
	file, found := s.await(ctx, key, !byPeer)
	if file == nil {
		s.explain(w, key)
		return
	}
	defer file.Close() //nolint:errcheck // it was only read
	if !byPeer {
		end, ok := s.downloads.begin(r.RemoteAddr, found.Namespace)
		if !ok {
			retryLater(w, http.StatusTooManyRequests, "too many downloads to this client, try again later")
			return
		}
		defer end()
	}
	header := w.Header()
	header.Set(remote.SignatureHeader, found.Signature)
	header.Set("Content-Type", "application/octet-stream")
	header.Set("Content-Length", strconv.FormatInt(found.Size, 10))
	if encoded, err := found.header(); byPeer && err == nil {
		header.Set(resultHeader, encoded)
	}
	waited := time.Since(asked)
	sent, err := send(w, file, found.Size)
	s.metrics.fetched(byPeer)
	s.config.Log.Info("fetch", "key", short(key), "peer", byPeer, "bytes", sent, "complete", err == nil,
		"waited", rounded(waited), "duration", rounded(time.Since(asked)))
}

// preferredWait returns how long a request wants to wait, by the header Prefer of
// RFC 7240, and at most maxWait.
func preferredWait(r *http.Request) time.Duration {
	for preference := range strings.SplitSeq(r.Header.Get("Prefer"), ",") {
		value, ok := strings.CutPrefix(strings.TrimSpace(preference), "wait=")
		if seconds, err := strconv.Atoi(value); ok && err == nil && seconds > 0 {
			return min(time.Duration(seconds)*time.Second, maxWait)
		}
	}
	return 0
}

// await returns the binary of key as soon as it is stored, or nil if it is not before
// ctx ends, or if the source does not compile. A build that it waits for is not
// cancelled. With askPeers, it asks the other replicas for what is not built here.
func (s *Service) await(ctx context.Context, key string, askPeers bool) (*reader, result) {
	var fetched <-chan singleflight.Result // nil while no replica is asked
	for {
		changed := s.changed.wait()
		file, found, known := s.store.open(key)
		if known || ctx.Err() != nil {
			return file, found
		}
		if id, running := s.builds.join(key); running != nil {
			select {
			case <-running.done:
			case <-ctx.Done():
			}
			s.builds.leave(id, running)
			continue
		}
		if askPeers && fetched == nil {
			fetched = s.fetch(key)
		}
		select {
		case <-changed:
		case <-fetched:
			fetched = nil
		case <-ctx.Done():
		}
	}
}

// explain answers a request for a binary that is not here.
func (s *Service) explain(w http.ResponseWriter, key string) {
	if s.ended() {
		retryLater(w, http.StatusServiceUnavailable, errEnding.Error())
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

// transferGrace is how much longer than by minRate a transfer may take. It is a variable for the
// tests.
var transferGrace = 30 * time.Second

// transferTimeout returns how long the transfer of a binary of so many bytes may take.
func transferTimeout(size int64) time.Duration {
	return time.Duration(size)*time.Second/minRate + transferGrace
}

// send sends a binary of so many bytes and returns how many were sent. It fails after the
// transferTimeout of the size, however the client reads.
func send(w http.ResponseWriter, binary io.Reader, size int64) (sent int64, err error) {
	control := http.NewResponseController(w)
	if err := control.SetWriteDeadline(time.Now().Add(transferTimeout(size))); err != nil {
		return 0, err
	}
	if sent, err = io.Copy(w, binary); err != nil {
		return sent, err
	}
	return sent, control.Flush()
}
