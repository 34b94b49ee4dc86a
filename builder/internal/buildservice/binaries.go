package buildservice

import (
	"context"
	"crypto/subtle"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/singleflight"

	"goless.io/builder"
	"goless.io/builder/buildapi"
)

const (
	// maxWait is the maximum time that a request may wait for a binary.
	maxWait = time.Minute

	// peerHeader contains the token of the service in requests of other replicas. Such requests are
	// not forwarded to further replicas.
	peerHeader = "Goless-Peer"

	// minRate is the minimum transfer rate of a binary, in bytes per second.
	minRate = 1 << 20

	// maxDownloads limits the concurrent downloads per client address and namespace of the
	// binaries.
	maxDownloads = 16

	// resultHeader contains the result of a binary in responses to other replicas.
	resultHeader = "Goless-Record"

	// compilingHeader is set in responses that have no binary because it is being compiled.
	compilingHeader = "Goless-Compiling"
)

// equal compares tokens in constant time.
func equal(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// serveBinary handles GET /v1/binaries/{key}.
func (s *Service) serveBinary(w http.ResponseWriter, r *http.Request) {
	key := r.PathValue("key")
	if !equal(bearer(r), s.config.Keys.Capability(key)) {
		http.Error(w, "token is not valid for this binary", http.StatusForbidden)
		return
	}
	if r.ContentLength != 0 {
		http.Error(w, "request body not allowed", http.StatusBadRequest)
		return
	}
	byPeer := equal(r.Header.Get(peerHeader), s.config.Keys.Token())
	admit(w, r, !byPeer)
	// When a read deadline expires, net/http cancels the request as if the client had disconnected.
	if err := http.NewResponseController(w).SetReadDeadline(time.Time{}); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	asked := time.Now()
	ctx, cancel := context.WithTimeout(r.Context(), preferredWait(r))
	defer cancel()
	file, found, compiling := s.await(ctx, key, !byPeer)
	if file == nil {
		s.explain(w, key, compiling)
		return
	}
	defer file.Close() //nolint:errcheck // it was only read
	if !byPeer {
		end, ok := s.downloads.begin(r.RemoteAddr, found.Namespace)
		if !ok {
			retryLater(w, http.StatusTooManyRequests, "too many downloads for this client; try again later")
			return
		}
		defer end()
	}
	header := w.Header()
	header.Set(buildapi.SignatureHeader, found.Signature)
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

// preferredWait returns the wait preference in the Prefer header (RFC 7240), at most maxWait.
func preferredWait(r *http.Request) time.Duration {
	for preference := range strings.SplitSeq(r.Header.Get("Prefer"), ",") {
		value, ok := strings.CutPrefix(strings.TrimSpace(preference), "wait=")
		if seconds, err := strconv.Atoi(value); ok && err == nil && seconds > 0 {
			return min(time.Duration(seconds)*time.Second, maxWait)
		}
	}
	return 0
}

// await returns the binary for key as soon as it is stored. It returns nil if ctx ends first or the
// source does not compile. It keeps a build that it waits for from being cancelled. With askPeers,
// it asks the other replicas for binaries that are not being built here, and reports whether one of
// them is compiling.
func (s *Service) await(ctx context.Context, key string, askPeers bool) (file *reader, found result, compiling bool) {
	var fetched <-chan singleflight.Result // nil while no replica is asked
	for {
		changed := s.changed.wait()
		file, found, known := s.store.open(key)
		if known || ctx.Err() != nil {
			return file, found, compiling
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
		case asked := <-fetched:
			fetched, compiling = nil, errors.Is(asked.Err, errCompiling)
		case <-ctx.Done():
		}
	}
}

// errCompiling means that another replica compiles the source.
var errCompiling = errors.New("still compiling")

// explain responds to a request for a binary that is not available. A pod that receives 404 exits
// after some time (see the launcher), and one that receives 503 keeps waiting. compiling reports
// whether another replica compiles the source.
func (s *Service) explain(w http.ResponseWriter, key string, compiling bool) {
	switch known, stored := s.store.find(key); {
	case s.ended():
		retryLater(w, http.StatusServiceUnavailable, errEnding.Error())
	case compiling, s.builds.has(key):
		w.Header().Set(compilingHeader, "true")
		retryLater(w, http.StatusServiceUnavailable, errCompiling.Error())
	case stored && !known.built():
		http.Error(w, string(builder.CompileFailed)+": the source does not compile, see the status of the Function", http.StatusNotFound)
	default:
		http.Error(w, "binary not found; the operator sends the source again", http.StatusNotFound)
	}
}

// transferGrace is added to the time that a transfer takes at minRate. Tests change it.
var transferGrace = 30 * time.Second

// transferTimeout returns the timeout for the transfer of a binary with the given size.
func transferTimeout(size int64) time.Duration {
	return time.Duration(size)*time.Second/minRate + transferGrace
}

// send sends a binary with the given size and returns the number of bytes sent. It fails after
// transferTimeout(size), however the client reads.
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
