// Package restored owns the sign that what a cluster holds was restored from a
// backup: its versions have gone back. Who watches from a version that is still to
// come is told nothing until it has come, so that a process which remembers one has
// to begin anew, as the manual of Kubernetes says of all controllers.
//
// It refuses to know what is watched, and how the process ends.
package restored

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"
)

// mostAnswer bounds what is read of a list of one name.
const mostAnswer = 8 << 20

// Error says that versions have gone back.
type Error struct {
	// Path is of the objects in the API.
	Path string

	// Known is the version that was known, and Now the one that the server has.
	Known, Now uint64
}

func (e *Error) Error() string {
	return fmt.Sprintf("what the cluster holds was restored from a backup: %s was at version %d and is at %d now; "+
		"what is remembered of it is wrong, so this process ends, to be started anew", e.Path, e.Known, e.Now)
}

// Detector compares versions when a watch goes on that was cut. A server that is
// behind is no reason to end: it is asked for the latest version that there is. While
// nothing breaks, nothing is asked.
type Detector struct {
	end func(error)

	mu  sync.Mutex
	cut map[string]bool // watches that have ended before their time, or were refused
}

// New makes a Detector that calls end with an *Error.
func New(end func(error)) *Detector { return &Detector{end: end, cut: map[string]bool{}} }

// Wrap puts the Detector before a transport.
func (d *Detector) Wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		query := r.URL.Query()
		version, err := strconv.ParseUint(query.Get("resourceVersion"), 10, 64)
		if r.Method != http.MethodGet || err != nil || version == 0 {
			return next.RoundTrip(r)
		}
		watch := watched{d, r.URL.Path + "?" + selectors(query).Encode()}
		if watch.isCut() {
			if response, err := watch.compare(next, r, version); response != nil || err != nil {
				return response, err
			}
		}
		if query.Get("watch") == "" {
			return next.RoundTrip(r)
		}
		begun := time.Now()
		response, err := next.RoundTrip(r)
		if err != nil || response.StatusCode != http.StatusOK {
			watch.setCut(true)
			return response, err
		}
		seconds, _ := strconv.Atoi(query.Get("timeoutSeconds")) // 0 where it never ends
		response.Body = &stream{ReadCloser: response.Body, watch: watch, until: begun.Add(time.Duration(seconds) * time.Second)}
		return response, nil
	})
}

// watched is what is watched: objects of one kind, perhaps some of them only.
type watched struct {
	*Detector
	what string
}

func (w watched) isCut() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.cut[w.what]
}

func (w watched) setCut(cut bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut[w.what] = cut
}

// compare asks for the latest version. The response is that of a server that does not
// say it, and nil where the request may be sent.
func (w watched) compare(next http.RoundTripper, r *http.Request, known uint64) (*http.Response, error) {
	list := r.Clone(r.Context())
	query := selectors(r.URL.Query())
	query.Set("limit", "1")
	list.URL.RawQuery = query.Encode()
	list.Header.Set("Accept", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1")
	response, err := next.RoundTrip(list)
	switch {
	case err != nil:
		return nil, err
	case response.StatusCode == http.StatusForbidden: // it may watch, and no more
		return nil, response.Body.Close()
	case response.StatusCode != http.StatusOK:
		return response, nil
	}
	defer response.Body.Close() //nolint:errcheck // it was only read
	var answer struct {
		Metadata struct {
			ResourceVersion uint64 `json:",string"`
		}
	}
	if err := json.NewDecoder(io.LimitReader(response.Body, mostAnswer)).Decode(&answer); err != nil {
		return nil, fmt.Errorf("asking for the version of %s: %w", r.URL.Path, err)
	}
	switch now := answer.Metadata.ResourceVersion; {
	case now == 0:
		return nil, fmt.Errorf("asking for the version of %s: the answer has none", r.URL.Path)
	case now < known:
		gone := &Error{Path: r.URL.Path, Known: known, Now: now}
		w.end(gone)
		return nil, gone
	}
	w.setCut(false)
	return nil, nil
}

// selectors are what a right to some objects only may hang on.
func selectors(query url.Values) url.Values {
	kept := url.Values{}
	for _, name := range []string{"labelSelector", "fieldSelector"} {
		if query.Has(name) {
			kept.Set(name, query.Get(name))
		}
	}
	return kept
}

// stream is the answer to a watch. Servers end one when it has lasted as long as it
// was asked for.
type stream struct {
	io.ReadCloser
	watch watched
	until time.Time
}

func (s *stream) Close() error {
	if time.Now().Before(s.until) {
		s.watch.setCut(true)
	}
	return s.ReadCloser.Close()
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
