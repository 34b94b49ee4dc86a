// Package leaderguard rejects the writes of a leader that has not renewed its lease in time. A
// process that was paused or swapped out resumes where it stopped, and notices only later that
// another replica is the leader. A check in the reconcilers would not be enough, because the
// process can be paused between the check and the write. The package therefore checks the lease in
// a RoundTripper, immediately before a request is sent. The leader itself is elected by client-go.
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

// ErrExpired is returned for a write that is not sent because another replica may be the leader.
var ErrExpired = errors.New("request not sent: the leader Lease was not renewed in time, and another replica may lead")

// election is the path prefix of the Lease API.
const election = "/apis/coordination.k8s.io/"

// unguardedPrefixes are the APIs to which a replica may write without the lease: Leases, and the
// reviews that authorize clients of the metrics.
var unguardedPrefixes = []string{
	election, "/apis/authentication.k8s.io/", "/apis/authorization.k8s.io/",
}

// A Guard lets write requests pass for a limited time after each renewal of a lease.
type Guard struct {
	name  string
	valid time.Duration
	now   func() time.Time

	mu      sync.Mutex
	renewed time.Time // zero before the first renewal, and after a release
}

// NewGuard returns a Guard for the Lease with the given name. valid must be at least the renew
// deadline, and less than the lease duration, so that no other replica is the leader when the last
// write passes.
func NewGuard(name string, valid time.Duration) *Guard {
	return &Guard{name: name, valid: valid, now: time.Now}
}

// Wrap returns a RoundTripper that rejects writes with ErrExpired, and observes renewals of the
// lease.
func (g *Guard) Wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		started := g.now()
		lease := g.written(r)
		held := lease != nil && lease.Spec.HolderIdentity != nil && *lease.Spec.HolderIdentity != ""
		if lease != nil && !held {
			g.renew(time.Time{}) // released: whatever the response, another replica may be the leader
		}
		if !g.passes(r, started) {
			return nil, ErrExpired
		}
		response, err := next.RoundTrip(r)
		if held && err == nil && response.StatusCode < 300 {
			g.renew(started) // the server cannot have received it earlier
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

// written returns the Lease that a request creates or updates, or nil for any other request.
func (g *Guard) written(r *http.Request) *coordinationv1.Lease {
	if r.Method == http.MethodGet || !strings.HasPrefix(r.URL.Path, election) || r.GetBody == nil {
		return nil
	}
	body, err := r.GetBody()
	if err != nil {
		return nil
	}
	defer body.Close() //nolint:errcheck // in memory
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
