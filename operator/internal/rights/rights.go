// Package rights owns what the API server refuses to show: the objects that the
// operator may not list or watch, while it has to. Nothing else tells of it, because
// nothing is looked at then.
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

// unseen is how the API server refuses a list or a watch, in JSON and in protobuf.
var unseen = regexp.MustCompile(`User "[^"]+" cannot (list|watch) resource "[^"]+" in API group "[^"]*" (at the cluster scope|in the namespace "[^"]+")`)

// Rights are those that are missing.
type Rights struct {
	mu      sync.Mutex
	refused map[string]refusal // by the path of the objects
}

type refusal struct {
	first, last time.Time
	message     string
}

// New has nothing to say yet.
func New() *Rights { return &Rights{refused: map[string]refusal{}} }

// Refused are the paths of the objects that have been refused for some time.
func (r *Rights) Refused() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var paths []string
	for path, one := range r.refused {
		if one.last.Sub(one.first) > settled {
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

// Wrap notes what is answered to lists and watches. What can be watched is not missing
// any more.
func (r *Rights) Wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		response, err := next.RoundTrip(request)
		if err != nil || request.Method != http.MethodGet {
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
			if message := unseen.Find(bytes.ReplaceAll(answer, []byte(`\"`), []byte(`"`))); message != nil {
				r.refuse(path, string(message))
			}
		case response.StatusCode == http.StatusOK && request.URL.Query().Get("watch") != "":
			r.show(path)
		}
		return response, nil
	})
}

func (r *Rights) refuse(path, message string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	one, known := r.refused[path]
	if !known {
		one = refusal{first: time.Now(), message: message}
	}
	one.last = time.Now()
	r.refused[path] = one
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
