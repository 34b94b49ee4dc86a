package activator

import (
	"context"
	"errors"
	"net/netip"
	"slices"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/internal/activator/rule"
	"goless.io/operator/internal/activator/target"
)

// slicesOf returns our slices of a Service.
func (r *Reconciler) slicesOf(ctx context.Context, service types.NamespacedName) ([]discoveryv1.EndpointSlice, error) {
	var list discoveryv1.EndpointSliceList
	err := r.client.List(ctx, &list, client.InNamespace(service.Namespace), client.MatchingFields{byService: service.Name})
	return list.Items, err
}

// sliceWriter writes the slices of a function, by what the activators answer.
type sliceWriter struct {
	r      *Reconciler
	target target.Target
	port   int32
	slices []discoveryv1.EndpointSlice
	answers
}

// ask asks the activators whether they listen for the function.
func (w *sliceWriter) ask(ctx context.Context) (err error) {
	var named []netip.Addr
	for i := range w.slices {
		named = append(named, rule.Addresses(&w.slices[i])...)
	}
	w.answers, err = w.r.ask(ctx, w.target, w.port, named)
	return err
}

// routeToActivators has the slices name the activators that listen.
func (w *sliceWriter) routeToActivators(ctx context.Context) error {
	if err := w.ask(ctx); err != nil {
		return err
	}
	return w.write(ctx, w.addresses)
}

// withoutTraffic tells that all activators listen, and have no request for the function.
func (w *sliceWriter) withoutTraffic() bool { return w.all && w.inFlight == 0 }

// write creates the slices, one for each address family of the Service, or changes them, and
// deletes that of a family that the Service has no longer. It fails if somebody else was faster.
func (w *sliceWriter) write(ctx context.Context, addresses []netip.Addr) error {
	var now []discoveryv1.EndpointSlice
	for _, family := range w.target.Families {
		shall := rule.Slice(w.target, family, w.port, addresses)
		i := slices.IndexFunc(w.slices, func(is discoveryv1.EndpointSlice) bool { return is.Name == shall.Name })
		var err error
		switch {
		case i < 0:
			err = w.r.client.Create(ctx, shall)
		case !rule.Same(&w.slices[i], shall):
			shall.ResourceVersion = w.slices[i].ResourceVersion
			err = w.r.client.Update(ctx, shall)
		default:
			shall = &w.slices[i]
		}
		if err != nil {
			return err
		}
		now = append(now, *shall)
	}
	gone := slices.DeleteFunc(w.slices, func(is discoveryv1.EndpointSlice) bool {
		return slices.ContainsFunc(now, func(kept discoveryv1.EndpointSlice) bool { return kept.Name == is.Name })
	})
	w.slices = now
	return w.r.deleteAll(ctx, gone)
}

// deleteAll deletes slices.
func (r *Reconciler) deleteAll(ctx context.Context, all []discoveryv1.EndpointSlice) error {
	var errs []error
	for i := range all {
		errs = append(errs, client.IgnoreNotFound(r.client.Delete(ctx, &all[i])))
	}
	return errors.Join(errs...)
}

// choose returns a port that no function has.
func (r *Reconciler) choose(ctx context.Context) (int32, error) {
	var list discoveryv1.EndpointSliceList
	if err := r.client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return 0, err
	}
	used := map[int32]bool{}
	for i := range list.Items {
		used[rule.PortOf(&list.Items[i])] = true
	}
	port, ok := r.ports.Next(func(p int32) bool { return used[p] })
	if !ok {
		return 0, errors.New("all ports that activators listen on are taken")
	}
	return port, nil
}
