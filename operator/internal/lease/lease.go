// Package lease owns what a leader may do that has not heard from its lease for a
// while: nothing. A process that was stopped, or swapped out, goes on where it was
// before it finds out that another one leads. It tells too whether there is a leader. It
// refuses to know how leaders are elected, which client-go does, and what they write.
package lease

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ErrExpired is the answer to a request of who may no longer lead.
var ErrExpired = errors.New("not sent: the lease of the leader was not renewed in time, and another one may lead")

// free are the APIs that a candidate may write to as well: those of the election
// itself, and those that ask who may read the metrics.
var free = []string{
	"/apis/coordination.k8s.io/", "/apis/authentication.k8s.io/", "/apis/authorization.k8s.io/",
}

// Guard lets writes pass for some time after each renewal of a lease.
type Guard struct {
	name  string
	valid time.Duration
	now   func() time.Time

	mu      sync.Mutex
	renewed time.Time
}

// NewGuard is for the lease of a name. valid is less than the duration of the
// lease, and not less than the time in which the leader gives up: then no other
// one leads when the last write is sent.
func NewGuard(name string, valid time.Duration) *Guard {
	return &Guard{name: name, valid: valid, now: time.Now}
}

// Wrap puts the guard before a transport.
func (g *Guard) Wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		started := g.now()
		if !g.passes(r, started) {
			return nil, ErrExpired
		}
		response, err := next.RoundTrip(r)
		if err == nil && response.StatusCode < 300 && g.renews(r) {
			g.mu.Lock()
			g.renewed = started // the server's clock cannot have begun earlier
			g.mu.Unlock()
		}
		return response, err
	})
}

func (g *Guard) passes(r *http.Request, now time.Time) bool {
	if r.Method == http.MethodGet {
		return true
	}
	for _, prefix := range free {
		if strings.HasPrefix(r.URL.Path, prefix) {
			return true
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return now.Sub(g.renewed) < g.valid
}

// renews tells whether a request takes or keeps the lease.
func (g *Guard) renews(r *http.Request) bool {
	switch r.Method {
	case http.MethodPost:
		return strings.HasSuffix(r.URL.Path, "/leases")
	case http.MethodPut:
		return strings.HasSuffix(r.URL.Path, "/leases/"+g.name)
	}
	return false
}

// Watcher tells whether somebody holds a lease.
type Watcher struct{ renewed *metav1.MicroTime }

// Held tells whether a lease was renewed since the last look, by nobody's clock. At the
// first look it takes the lease for held; there must be more time between two of them than
// between two renewals. That it may not be read is no error: nobody is known to hold it
// then.
func (w *Watcher) Held(ctx context.Context, c client.Reader, key client.ObjectKey) (bool, error) {
	var held coordinationv1.Lease
	switch err := c.Get(ctx, key, &held); {
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("reading Lease %q: %w", key.Name, err)
	}
	spec := held.Spec
	if spec.RenewTime == nil || spec.HolderIdentity == nil || *spec.HolderIdentity == "" {
		return false, nil
	}
	before := w.renewed
	w.renewed = spec.RenewTime
	return before == nil || !before.Equal(spec.RenewTime), nil
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
