package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
)

// sleep scales all to zero, and waits until the pods are gone and the activators receive the
// requests.
func (z *sleepers) sleep(ctx context.Context) error {
	err := each(0, z.n, func(i int) error {
		return errors.Join(z.scaleTo(ctx, sleeper(i), 0), z.scaleTo(ctx, bare(i), 0), z.scaleTo(ctx, restricted(i), 0))
	})
	if err != nil {
		return err
	}
	return until(ctx, "all functions sleep", func() (bool, error) {
		n, err := z.pods(ctx)
		if n > 0 || err != nil {
			return false, err
		}
		return z.taken(ctx)
	})
}

// pods counts those of the functions and of the Deployments.
func (z *sleepers) pods(ctx context.Context) (n int, err error) {
	var list corev1.PodList
	err = z.client.List(ctx, &list, client.InNamespace(z.namespace))
	for _, pod := range list.Items {
		if pod.Labels[functionLabel] != callerName {
			n++
		}
	}
	return n, err
}

// taken reports whether activators receive the requests of all functions, and finds one of them
// and its ports.
func (z *sleepers) taken(ctx context.Context) (bool, error) {
	var slices discoveryv1.EndpointSliceList
	var activators corev1.PodList
	err := errors.Join(
		z.client.List(ctx, &slices, client.InNamespace(z.namespace), client.MatchingLabels{discoveryv1.LabelManagedBy: "goless-activator"}),
		z.client.List(ctx, &activators, client.MatchingLabels{"app.kubernetes.io/name": "goless-activator"}),
	)
	if err != nil {
		return false, err
	}
	if len(activators.Items) == 0 {
		return false, errors.New("there is no activator")
	}
	z.activator, z.ports = activators.Items[0], map[string]int32{}
	for _, slice := range slices.Items {
		if len(slice.Endpoints) > 0 {
			z.ports[slice.Labels[functionLabel]] = *slice.Ports[0].Port
		}
	}
	return len(z.ports) == z.n, nil
}

// sleepAfter sets the time without requests after which functions sleep.
func (z *sleepers) sleepAfter(ctx context.Context, d time.Duration) error {
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"scaling":{"sleepAfter":%q}}}`, d))
	return each(0, z.n, func(i int) error {
		return z.client.Patch(ctx, &v1beta1.Function{ObjectMeta: metav1.ObjectMeta{Namespace: z.namespace, Name: sleeper(i)}}, patch)
	})
}

func (b *bench) scaleTo(ctx context.Context, name string, n int) error {
	_, err := b.clientset.AppsV1().Deployments(b.namespace).
		Patch(ctx, name, types.MergePatchType, fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, n), metav1.PatchOptions{}, "scale")
	return err
}

// askPod calls a pod until it responds.
func (b *bench) askPod(ctx context.Context, namespace, name string, port int32) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("pod %s did not answer within %s", name, patience))
	defer cancel()
	for {
		_, err := b.clientset.CoreV1().RESTClient().Get().Namespace(namespace).
			Resource("pods").Name(fmt.Sprintf("http:%s:%d", name, port)).SubResource("proxy").DoRaw(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-time.After(askingPause):
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		}
	}
}
