package activator

import (
	"context"
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/internal/activator/rule"
	"goless.io/operator/internal/activator/target"
)

// A route is how requests for a function come to the activators: by the EndpointSlices of its
// Service, and on a port on which no other function has its requests.
type route struct {
	target.Target
	port   int32                       // 0 if none was chosen yet
	slices []discoveryv1.EndpointSlice // one for each address family, as they were read or written last
	notes  map[string]string           // the annotations of the slices that the operator reads
}

// slicesOf returns our slices of a Service.
func (r *Reconciler) slicesOf(ctx context.Context, service types.NamespacedName) ([]discoveryv1.EndpointSlice, error) {
	var list discoveryv1.EndpointSliceList
	err := r.client.List(ctx, &list, client.InNamespace(service.Namespace), client.MatchingFields{byService: service.Name})
	return list.Items, err
}

// allSlices returns the slices of all functions, from the cache, not to be changed. Those that another client has
// written with the labels of the activator are left out.
func (r *Reconciler) allSlices(ctx context.Context) ([]*discoveryv1.EndpointSlice, error) {
	var services corev1.ServiceList
	var list discoveryv1.EndpointSliceList
	for _, l := range []client.ObjectList{&services, &list} {
		if err := r.client.List(ctx, l, client.UnsafeDisableDeepCopy); err != nil {
			return nil, err
		}
	}
	targets := map[types.NamespacedName]target.Target{}
	for i := range services.Items {
		if t, ok := target.Of(&services.Items[i]); ok {
			targets[t.Service] = t
		}
	}
	var all []*discoveryv1.EndpointSlice
	for i := range list.Items {
		s := &list.Items[i]
		service := types.NamespacedName{Namespace: s.Namespace, Name: s.Labels[discoveryv1.LabelServiceName]}
		if t, ok := targets[service]; ok && rule.BelongsTo(s, t) {
			all = append(all, s)
		}
	}
	return all, nil
}

// portOf returns the port of the slices of a function, and 0 if they have none.
func portOf(t target.Target, all []discoveryv1.EndpointSlice) int32 {
	for i := range all {
		if port := rule.PortOf(&all[i]); port != 0 && rule.BelongsTo(&all[i], t) {
			return port
		}
	}
	return 0
}

// writeSlices makes the slices of a route send requests to activators at these endpoints. It creates
// or updates a slice for each address family of the Service, and deletes that of a family that the
// Service has no longer. It fails if somebody else was faster.
func (r *Reconciler) writeSlices(ctx context.Context, rt *route, endpoints []rule.Endpoint) error {
	var written []discoveryv1.EndpointSlice
	for _, family := range rt.Families {
		desired := rule.Slice(rt.Target, family, rt.port, endpoints)
		i := slices.IndexFunc(rt.slices, func(s discoveryv1.EndpointSlice) bool { return s.Name == desired.Name })
		current := &discoveryv1.EndpointSlice{}
		if i >= 0 {
			current = &rt.slices[i]
		}
		rule.Note(desired, current, rt.notes)
		var err error
		switch {
		case i < 0:
			err = r.client.Create(ctx, desired)
		case rule.Same(current, desired):
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

// deleteSlices deletes slices, some of which may have gone already.
func (r *Reconciler) deleteSlices(ctx context.Context, all []discoveryv1.EndpointSlice) error {
	var errs []error
	for i := range all {
		errs = append(errs, client.IgnoreNotFound(r.client.Delete(ctx, &all[i])))
	}
	return errors.Join(errs...)
}

// choosePort returns a port that no function has.
func (r *Reconciler) choosePort(ctx context.Context) (int32, error) {
	all, err := r.allSlices(ctx)
	if err != nil {
		return 0, err
	}
	used := map[int32]bool{}
	for _, s := range all {
		used[rule.PortOf(s)] = true
	}
	port, ok := r.ports.Next(func(p int32) bool { return used[p] })
	if !ok {
		return 0, errors.New("all ports that activators listen on are taken")
	}
	return port, nil
}
