// Package rights owns what the API server refuses to an operator that has to wait for
// it: the objects that it may not list or watch, and the lease without which it does not
// lead. Nothing else tells of it, because nothing is looked at then.
//
// It refuses to know what the objects are, and what is said of it.
package rights

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// settled is how long after a refusal there must have been another one. A server that
// has just started refuses everything, until it has read who may do what.
const settled = 5 * time.Second

// mostAnswer bounds what is read of a refusal.
const mostAnswer = 64 << 10

// How the API server refuses a list or a watch, and whatever is done to a lease, in JSON
// and in protobuf.
var (
	unseen = regexp.MustCompile(`User "[^"]+" cannot (list|watch) resource "[^"]+" in API group "[^"]*" (at the cluster scope|in the namespace "[^"]+")`)
	unled  = regexp.MustCompile(`User "[^"]+" cannot \w+ resource "leases" in API group "[^"]*" in the namespace "[^"]+"`)
)

// Rights are those that are missing.
type Rights struct {
	mu      sync.Mutex
	refused map[string]refusal // by the path of the objects
	lease   refusal
}

type refusal struct {
	first, last time.Time
	message     string
}

// lasts tells whether there have been some for longer than settled.
func (r refusal) lasts() bool { return r.last.Sub(r.first) > settled }

// New has nothing to say yet.
func New() *Rights { return &Rights{refused: map[string]refusal{}} }

// Refused are the paths of the objects that have been refused for some time.
func (r *Rights) Refused() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var paths []string
	for path, one := range r.refused {
		if one.lasts() {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	return paths
}

// Refusal is what the API server says of the first of those that are in a namespace, or
// in no certain one; empty where there are none. An empty namespace stands for all.
func (r *Rights) Refusal(namespace string) string {
	for _, path := range r.Refused() {
		_, within, some := strings.Cut(path, "/namespaces/")
		if namespace == "" || !some || strings.HasPrefix(within, namespace+"/") {
			r.mu.Lock()
			defer r.mu.Unlock()
			return r.refused[path].message
		}
	}
	return ""
}

// Unled is what the API server says of the lease. It is empty where that was not refused
// for some time, up to now: who waits for a lease asks for it every few seconds.
func (r *Rights) Unled() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lease.lasts() && time.Since(r.lease.last) < 2*settled {
		return r.lease.message
	}
	return ""
}

// Wrap notes what is answered. What can be watched is not missing any more.
func (r *Rights) Wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		response, err := next.RoundTrip(request)
		if err != nil {
			return response, err
		}
		path := request.URL.Path
		switch {
		case response.StatusCode == http.StatusForbidden:
			answer, err := io.ReadAll(io.LimitReader(response.Body, mostAnswer))
			if err != nil {
				return nil, errors.Join(err, response.Body.Close())
			}
			response.Body = body{io.MultiReader(bytes.NewReader(answer), response.Body), response.Body}
			answer = bytes.ReplaceAll(answer, []byte(`\"`), []byte(`"`))
			if strings.HasPrefix(path, "/apis/coordination.k8s.io/") {
				r.refuseLease(string(unled.Find(answer)))
			} else if request.Method == http.MethodGet {
				r.refuse(path, string(unseen.Find(answer)))
			}
		case response.StatusCode == http.StatusOK && request.URL.Query().Get("watch") != "":
			r.show(path)
		}
		return response, nil
	})
}

func (r *Rights) refuse(path, message string) {
	if message == "" {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	one, known := r.refused[path]
	if !known {
		one = refusal{first: time.Now(), message: message}
	}
	one.last = time.Now()
	r.refused[path] = one
}

func (r *Rights) refuseLease(message string) {
	if message == "" {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if now.Sub(r.lease.last) > 2*settled {
		r.lease.first = now
	}
	r.lease.last, r.lease.message = now, message
}

func (r *Rights) show(path string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.refused, path)
}

// body is an answer of which a part was read already.
type body struct {
	io.Reader
	io.Closer
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
