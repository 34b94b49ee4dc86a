package e2e

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// newClient reads patiently. It writes once: whether a write that got no answer
// came about, nobody knows.
func newClient(config *rest.Config) (client.Client, error) {
	c, err := client.NewWithWatch(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, err
	}
	return interceptor.NewClient(c, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			return patiently(ctx, func() error { return c.Get(ctx, key, obj, opts...) })
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			return patiently(ctx, func() error { return c.List(ctx, list, opts...) })
		},
	}), nil
}

// patiently reads again while the API server is too busy to answer.
func patiently(ctx context.Context, read func() error) error { return patientlyIf(ctx, busy, read) }

// patientlyIf tries again while there is an error that says so.
func patientlyIf(ctx context.Context, again func(error) bool, try func() error) error {
	deadline := time.After(patience)
	for {
		err := try()
		if err == nil || !again(err) {
			return err
		}
		select {
		case <-time.After(time.Second):
		case <-deadline:
			return err
		case <-ctx.Done():
			return err
		}
	}
}

// busy is no answer, or that there is none: a slow etcd is an internal error.
func busy(err error) bool {
	return apierrors.IsTooManyRequests(err) || apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) ||
		apierrors.IsServiceUnavailable(err) || apierrors.IsInternalError(err) ||
		utilnet.IsConnectionRefused(err) || utilnet.IsConnectionReset(err) || utilnet.IsProbableEOF(err) || utilnet.IsTimeout(err)
}
