package gateway

import (
	"slices"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"goless.io/trigger/api/v1alpha1"
)

// settle is the time for which the former object of a trigger is kept after the new one was created
// or accepted, or its Gateway was created. Controllers write the status before their proxies are
// configured, and delay the configuration if there are many changes.
const settle = 15 * time.Second

// settling returns the time for which the former object of a trigger is still kept: its Ingress if
// it has parentRefs, and its HTTPRoute otherwise. It is 0 if there is no such object, or if that
// serves something that the trigger no longer requests.
func settling(t *v1alpha1.HTTPTrigger, seen Seen) time.Duration {
	var former client.Object
	var since time.Time
	if len(t.Spec.ParentRefs) > 0 && seen.Route != nil && within(seen.Ingress, t) {
		former, since = seen.Ingress, acceptedAt(seen.Route)
		if seen.Newest.After(since) { // a deleted Gateway with the same name accepted the route
			since = seen.Newest
		}
	}
	if len(t.Spec.ParentRefs) == 0 && seen.Route != nil && routeWithin(seen.Route, t) {
		former, since = seen.Route, seen.Ingress.CreationTimestamp.Time
	}
	if former == nil || !metav1.IsControlledBy(former, t) {
		return 0
	}
	// The clocks of the controllers may differ.
	return min(settle, max(0, settle-seen.Now.Sub(since)))
}

// acceptedAt returns the time at which the last Gateway accepted a route.
func acceptedAt(route *gatewayv1.HTTPRoute) time.Time {
	var last time.Time
	for _, parent := range route.Status.Parents {
		for _, c := range parent.Conditions {
			if accepts(c) && c.LastTransitionTime.After(last) {
				last = c.LastTransitionTime.Time
			}
		}
	}
	return last
}

// within reports whether the trigger requests everything that the Ingress serves.
func within(ingress *networkingv1.Ingress, t *v1alpha1.HTTPTrigger) bool {
	for _, rule := range ingress.Spec.Rules {
		if rule.HTTP == nil || !slices.Contains(t.Spec.Hostnames, v1alpha1.Hostname(rule.Host)) {
			return false
		}
		if slices.ContainsFunc(rule.HTTP.Paths, func(p networkingv1.HTTPIngressPath) bool { return p.Path != t.Spec.Path }) {
			return false
		}
	}
	return true
}

// routeWithin reports whether the trigger requests everything that the route serves.
func routeWithin(route *gatewayv1.HTTPRoute, t *v1alpha1.HTTPTrigger) bool {
	for _, host := range route.Spec.Hostnames {
		if !slices.Contains(t.Spec.Hostnames, v1alpha1.Hostname(host)) {
			return false
		}
	}
	for _, rule := range route.Spec.Rules {
		for _, match := range rule.Matches {
			if match.Path == nil || value(match.Path.Value, "") != t.Spec.Path {
				return false
			}
		}
	}
	return true
}
