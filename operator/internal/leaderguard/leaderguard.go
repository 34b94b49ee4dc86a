// Package leaderguard rejects the writes of a leader that has not renewed its lease in time. A process that
// was paused or swapped out continues where it was, and notices only later that another replica leads.
// A write that passed the check before the pause is still sent. client-go elects the leader.
package leaderguard

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/client-go/kubernetes/scheme"
)

// ErrExpired is returned for a write that is not sent because another replica may lead by now.
var ErrExpired = errors.New("not sent: the lease of the leader was not renewed in time, and another one may lead")

// election is the API of leases.
const election = "/apis/coordination.k8s.io/"

// unguardedPrefixes are the APIs that a candidate may write to as well: those of the election
// itself, and those that ask who may read the metrics.
var unguardedPrefixes = []string{
	election, "/apis/authentication.k8s.io/", "/apis/authorization.k8s.io/",
}

// Guard lets writes pass for some time after each renewal of a lease.
type Guard struct {
	name  string
	valid time.Duration
	now   func() time.Time

	mu      sync.Mutex
	renewed time.Time // zero before the first renewal, and after a release
}

// NewGuard is for the lease of a name. valid is less than the duration of the
// lease, and not less than the time in which the leader gives up: then no other
// one leads when the last write passes.
func NewGuard(name string, valid time.Duration) *Guard {
	return &Guard{name: name, valid: valid, now: time.Now}
}

// Wrap puts the guard before a transport.
func (g *Guard) Wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		started := g.now()
		lease := g.written(r)
		held := lease != nil && lease.Spec.HolderIdentity != nil && *lease.Spec.HolderIdentity != ""
		if lease != nil && !held {
			g.renew(time.Time{}) // a release: whatever the answer is, another one may lead by then
		}
		if !g.passes(r, started) {
			return nil, ErrExpired
		}
		response, err := next.RoundTrip(r)
		if held && err == nil && response.StatusCode < 300 {
			g.renew(started) // the server's clock cannot have begun earlier
		}
		return response, err
	})
}

func (g *Guard) renew(at time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.renewed = at
}

func (g *Guard) passes(r *http.Request, now time.Time) bool {
	if r.Method == http.MethodGet {
		return true
	}
	for _, prefix := range unguardedPrefixes {
		if strings.HasPrefix(r.URL.Path, prefix) {
			return true
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return now.Sub(g.renewed) < g.valid
}

// written is the lease as a request creates or updates it; nil where the request does
// something else.
func (g *Guard) written(r *http.Request) *coordinationv1.Lease {
	if r.Method == http.MethodGet || !strings.HasPrefix(r.URL.Path, election) || r.GetBody == nil {
		return nil
	}
	body, err := r.GetBody()
	if err != nil {
		return nil
	}
	defer body.Close() //nolint:errcheck // it is in memory
	text, err := io.ReadAll(body)
	if err != nil {
		return nil
	}
	object, _, err := scheme.Codecs.UniversalDeserializer().Decode(text, nil, nil)
	lease, ok := object.(*coordinationv1.Lease)
	if err != nil || !ok || lease.Name != g.name {
		return nil
	}
	return lease
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
