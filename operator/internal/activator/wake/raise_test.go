package wake

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"goless.io/operator/api/v1beta1"
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

// After a conflict, the same number of replicas is tried again. After other failures, it is not.
func TestRaise(t *testing.T) {
	for name, test := range map[string]struct {
		failure  error
		attempts int
	}{
		"Conflict":  {apierrors.NewConflict(schema.GroupResource{}, "hello", errors.New("changed")), 3},
		"Forbidden": {apierrors.NewForbidden(schema.GroupResource{}, "hello", errors.New("only one")), 1},
		"Success":   {nil, 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			attempts, owner := 0, metav1.OwnerReference{APIVersion: v1beta1.GroupVersion.String(), Kind: "Function", Name: "hello", Controller: new(true)}
			c := interceptor.NewClient(nil, interceptor.Funcs{
				Get: func(_ context.Context, _ client.WithWatch, _ client.ObjectKey, object client.Object, _ ...client.GetOption) error {
					object.SetOwnerReferences([]metav1.OwnerReference{owner})
					object.SetLabels(map[string]string{v1beta1.FunctionLabel: "hello"})
					object.SetAnnotations(map[string]string{v1beta1.ScalingAnnotation: backend.Scaling{Min: 1, Max: 9, Requests: 10}.String()})
					return nil
				},
				SubResourcePatch: func(context.Context, client.Client, string, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
					attempts++
					return test.failure
				},
			})
			r := raiser{
				waker:   &Waker{Client: c, Live: c, Activators: func() int { return 1 }},
				service: backend.Backend{Function: types.NamespacedName{Name: "hello"}},
			}
			for range 3 {
				time.Sleep(raiseInterval)
				r.raise(25, 1)
				synctest.Wait()
			}
			if attempts != test.attempts {
				t.Errorf("%s: %d attempts, want %d", name, attempts, test.attempts)
			}
		})
	}
}
