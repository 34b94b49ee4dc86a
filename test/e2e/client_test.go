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

// newClient returns a client that retries reads but not writes, because it is unknown whether a
// write without a response was carried out.
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

// patiently retries a read while the API server is too busy to respond.
func patiently(ctx context.Context, read func() error) error { return patientlyIf(ctx, busy, read) }

// patientlyIf retries while again returns true for the error.
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

// busy reports whether the API server did not respond or was overloaded. A slow etcd causes
// internal errors.
func busy(err error) bool {
	return apierrors.IsTooManyRequests(err) || apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) ||
		apierrors.IsServiceUnavailable(err) || apierrors.IsInternalError(err) ||
		utilnet.IsConnectionRefused(err) || utilnet.IsConnectionReset(err) || utilnet.IsProbableEOF(err) || utilnet.IsTimeout(err)
}
