package wake

import (
	"testing"

	"goless.io/operator/internal/activator/backend"
)

// Each activator assumes that the others have almost as many requests.
func TestReplicasFor(t *testing.T) {
	scaling := &backend.Scaling{Min: 1, Max: 20, Requests: 10}
	for _, test := range []struct {
		scaling              *backend.Scaling
		requests, activators int
		want                 int32
	}{
		{nil, 500, 2, 1},
		{scaling, 0, 2, 1},
		{scaling, 1, 3, 1},
		{&backend.Scaling{Min: 1, Max: 20, Requests: 1}, 1, 3, 1},
		{scaling, 30, 1, 3},
		{scaling, 31, 1, 4},
		{scaling, 30, 2, 6},
		{scaling, 30, 0, 3},
		{scaling, 5000, 2, 20},
	} {
		w := &Waker{Activators: func() int { return test.activators }}
		if got := w.replicasFor(backend.Backend{Scaling: test.scaling}, test.requests); got != test.want {
			t.Errorf("%d requests, %d activators: %d, want %d", test.requests, test.activators, got, test.want)
		}
	}
}
