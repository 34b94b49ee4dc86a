package activator

import (
	"context"
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/internal/activator/backend"
	"goless.io/operator/internal/activator/routing"
)

// A route describes how requests for a function reach the activators: the EndpointSlices of its
// Service and a port that no other function uses.
type route struct {
	backend.Backend
	port        int32                       // 0 if none is assigned yet
	slices      []discoveryv1.EndpointSlice // one for each address family, as last read or written
	annotations map[string]string           // of the slices; the operator reads them
}

// slicesOf returns the EndpointSlices of a Service that have the labels of the activator.
func (r *Reconciler) slicesOf(ctx context.Context, service types.NamespacedName) ([]discoveryv1.EndpointSlice, error) {
	var list discoveryv1.EndpointSliceList
	err := r.client.List(ctx, &list, client.InNamespace(service.Namespace), client.MatchingFields{byService: service.Name})
	return list.Items, err
}

// allSlices returns the EndpointSlices of all functions. They are shared with the cache and must
// not be modified. Slices that another client created with the labels of the activator are left
// out.
func (r *Reconciler) allSlices(ctx context.Context) ([]*discoveryv1.EndpointSlice, error) {
	var services corev1.ServiceList
	var list discoveryv1.EndpointSliceList
	for _, l := range []client.ObjectList{&services, &list} {
		if err := r.client.List(ctx, l, client.UnsafeDisableDeepCopy); err != nil {
			return nil, err
		}
	}
	backends := map[types.NamespacedName]backend.Backend{}
	for i := range services.Items {
		if b, ok := backend.FromService(&services.Items[i]); ok {
			backends[b.Service] = b
		}
	}
	var all []*discoveryv1.EndpointSlice
	for i := range list.Items {
		s := &list.Items[i]
		service := types.NamespacedName{Namespace: s.Namespace, Name: s.Labels[discoveryv1.LabelServiceName]}
		if b, ok := backends[service]; ok && routing.BelongsTo(s, b) {
			all = append(all, s)
		}
	}
	return all, nil
}

// portOf returns the port in the EndpointSlices of a function, or 0 if they have none.
func portOf(b backend.Backend, all []discoveryv1.EndpointSlice) int32 {
	for i := range all {
		if port := routing.PortOf(&all[i]); port != 0 && routing.BelongsTo(&all[i], b) {
			return port
		}
	}
	return 0
}

// writeSlices makes the EndpointSlices of a route list the given activator endpoints. It creates or
// updates one slice for each address family of the Service, and deletes the slices of other
// families. It returns a conflict or an already-exists error if another client has written a slice
// since it was read.
func (r *Reconciler) writeSlices(ctx context.Context, rt *route, endpoints []routing.Endpoint) error {
	var written []discoveryv1.EndpointSlice
	for _, family := range rt.Families {
		desired := routing.Slice(rt.Backend, family, rt.port, endpoints)
		i := slices.IndexFunc(rt.slices, func(s discoveryv1.EndpointSlice) bool { return s.Name == desired.Name })
		current := &discoveryv1.EndpointSlice{}
		if i >= 0 {
			current = &rt.slices[i]
		}
		routing.SetAnnotations(desired, current, rt.annotations)
		var err error
		switch {
		case i < 0:
			err = r.client.Create(ctx, desired)
		case routing.Equal(current, desired):
			desired = current
		default:
			desired.ResourceVersion = current.ResourceVersion
			err = r.client.Update(ctx, desired)
		}
		if err != nil {
			return err
		}
		written = append(written, *desired)
	}
	unwanted := slices.DeleteFunc(rt.slices, func(s discoveryv1.EndpointSlice) bool {
		return slices.ContainsFunc(written, func(w discoveryv1.EndpointSlice) bool { return w.Name == s.Name })
	})
	rt.slices = written
	return r.deleteSlices(ctx, unwanted)
}

// deleteSlices deletes EndpointSlices and ignores those that no longer exist.
func (r *Reconciler) deleteSlices(ctx context.Context, all []discoveryv1.EndpointSlice) error {
	var errs []error
	for i := range all {
		errs = append(errs, client.IgnoreNotFound(r.client.Delete(ctx, &all[i])))
	}
	return errors.Join(errs...)
}

// choosePort returns a port that no function uses.
func (r *Reconciler) choosePort(ctx context.Context) (int32, error) {
	all, err := r.allSlices(ctx)
	if err != nil {
		return 0, err
	}
	used := map[int32]bool{}
	for _, s := range all {
		used[routing.PortOf(s)] = true
	}
	port, ok := r.ports.Next(func(p int32) bool { return used[p] })
	if !ok {
		return 0, errors.New("all ports of the activator are in use")
	}
	return port, nil
}
