// Package gateway creates HTTPRoutes and Ingresses for HTTPTriggers and reports whether Gateways
// accept the routes.
package gateway

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	networkingv1ac "k8s.io/client-go/applyconfigurations/networking/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	gatewayv1ac "sigs.k8s.io/gateway-api/applyconfiguration/apis/v1"

	"goless.io/operator/api/v1beta1"
	"goless.io/trigger/api/v1alpha1"
	"goless.io/trigger/internal/apply"
	"goless.io/trigger/internal/functionref"
	"goless.io/trigger/internal/trigger"
)

// Kind implements trigger.Kind for HTTPTriggers.
type Kind struct {
	// Client reads from the cache.
	Client client.Client

	// Gateways reports whether the cluster has the kinds Gateway and HTTPRoute.
	Gateways bool

	// GatewaysCached reports whether the cache contains the Gateways of all namespaces. If so, the
	// status of a trigger names missing Gateways. The status of a route is not sufficient for that,
	// because some controllers do not remove the entry of a deleted Gateway.
	GatewaysCached bool
}

// Seen is the observed state of an HTTPTrigger.
type Seen struct {
	// Functions are the Functions that receive requests. A Function that does not exist has no UID.
	Functions map[string]v1beta1.Function

	// Competing are the other triggers of the cluster that use one of the hostnames.
	Competing []v1alpha1.HTTPTrigger

	// Patterns are the allowed hostnames in the namespace of the trigger and in those of the
	// competing triggers, by namespace.
	Patterns map[string][]string

	// Route and Ingress have the name of the trigger, regardless of their owner. Route is nil if
	// the Gateway API is not installed.
	Route   *gatewayv1.HTTPRoute
	Ingress *networkingv1.Ingress

	// Missing are the Gateways in spec.parentRefs that do not exist, as NAMESPACE/NAME. Newest is
	// the latest creation time of the existing Gateways in spec.parentRefs.
	Missing []string
	Newest  time.Time

	// Now is the time of the observation.
	Now time.Time
}

// New returns an empty HTTPTrigger.
func (Kind) New() *v1alpha1.HTTPTrigger { return &v1alpha1.HTTPTrigger{} }

// Observe reads the Functions, the namespaces, the competing triggers, the Ingress, the HTTPRoute
// and the Gateways.
func (k Kind) Observe(ctx context.Context, t *v1alpha1.HTTPTrigger) (Seen, error) {
	seen := Seen{Functions: map[string]v1beta1.Function{}, Patterns: map[string][]string{}, Ingress: &networkingv1.Ingress{}, Now: time.Now()}
	var own, others error
	seen.Patterns[t.Namespace], own = k.patterns(ctx, t.Namespace)
	seen.Competing, others = k.competing(ctx, t)
	errs := []error{own, others, client.IgnoreNotFound(k.Client.Get(ctx, client.ObjectKeyFromObject(t), seen.Ingress))}
	for _, competitor := range seen.Competing {
		if _, known := seen.Patterns[competitor.Namespace]; !known {
			patterns, err := k.patterns(ctx, competitor.Namespace)
			errs, seen.Patterns[competitor.Namespace] = append(errs, client.IgnoreNotFound(err)), patterns
		}
	}
	if k.Gateways {
		seen.Route = &gatewayv1.HTTPRoute{}
		errs = append(errs, client.IgnoreNotFound(k.Client.Get(ctx, client.ObjectKeyFromObject(t), seen.Route)))
	}
	if k.GatewaysCached {
		errs = append(errs, k.observeGateways(ctx, t, &seen))
	}
	for _, name := range t.FunctionNames() {
		var fn v1beta1.Function
		errs = append(errs, client.IgnoreNotFound(k.Client.Get(ctx, client.ObjectKey{Namespace: t.Namespace, Name: name}, &fn)))
		seen.Functions[name] = fn
	}
	if err := errors.Join(errs...); err != nil {
		return Seen{}, fmt.Errorf("reading the objects that HTTPTrigger %q depends on: %w", t.Name, err)
	}
	return seen, nil
}

// Plan decides which objects should exist. If the trigger may not use one of its hostnames, no
// object should exist, so that a hostname that was withdrawn is no longer served. A trigger that
// changes from an Ingress to an HTTPRoute, or back, keeps the former object until the new one can
// serve.
func (k Kind) Plan(t *v1alpha1.HTTPTrigger, seen Seen) trigger.Plan {
	gone := []apply.Change{apply.Gone(seen.Ingress)}
	if seen.Route != nil {
		gone = append(gone, apply.Gone(seen.Route))
	}
	if problem := k.refused(t, seen); problem != nil {
		return trigger.Plan{Problem: problem, Changes: gone}
	}
	shares, problem := sharesOf(t, seen)
	if len(shares) == 0 {
		return trigger.Plan{Problem: problem, Changes: gone}
	}
	if len(t.Spec.ParentRefs) > 0 {
		return routed(t, shares, seen, problem)
	}
	change := apply.To(ingress(t, shares[0]), seen.Ingress, networkingv1ac.ExtractIngress)
	p := trigger.Plan{Problem: problem, Changes: []apply.Change{change}}
	if seen.Route != nil && change.Same() && settling(t, seen) == 0 {
		p.Changes = append(p.Changes, apply.Gone(seen.Route))
	}
	return p
}

// routed returns the plan for a trigger with parentRefs. An existing Ingress is kept unchanged
// until the Gateways serve the route, unless it serves something that the trigger no longer
// requests.
func routed(t *v1alpha1.HTTPTrigger, shares []share, seen Seen, problem *functionref.Problem) trigger.Plan {
	change := apply.To(route(t, shares), seen.Route, gatewayv1ac.ExtractHTTPRoute)
	p := trigger.Plan{Problem: problem, Changes: []apply.Change{change}}
	pending := &functionref.Problem{Reason: v1alpha1.ReasonNotAccepted, Message: "no Gateway has processed the route yet"}
	if change.Same() {
		pending = verdict(seen.Route)
	}
	if len(seen.Missing) > 0 {
		message := fmt.Sprintf(`spec.parentRefs: Gateway "%s" not found; create it or correct the reference`, strings.Join(seen.Missing, `", "`))
		if pending != nil && !seen.Newest.IsZero() { // the others have a verdict
			message += "; " + pending.Message
		}
		pending = &functionref.Problem{Reason: v1alpha1.ReasonNotAccepted, Message: message}
	}
	stays := pending != nil && metav1.IsControlledBy(seen.Ingress, t) && within(seen.Ingress, t)
	if !stays && settling(t, seen) == 0 {
		p.Changes = append(p.Changes, apply.Gone(seen.Ingress))
	}
	if p.Problem == nil && pending != nil {
		p.Problem = pending
		if stays {
			p.Problem.Message += "; until then the Ingress serves"
		}
	}
	return p
}

// Report sets the URL if the trigger may have a route and a Function has a Service, and clears it
// otherwise. It returns the time after which an object that the trigger no longer needs can be
// deleted.
func (k Kind) Report(t *v1alpha1.HTTPTrigger, seen Seen) time.Duration {
	t.Status.URL = ""
	if shares, _ := sharesOf(t, seen); len(shares) > 0 && k.refused(t, seen) == nil {
		t.Status.URL = urlOf(t)
	}
	return settling(t, seen)
}

// urlOf returns the URL of the first hostname without a wildcard, or "".
func urlOf(t *v1alpha1.HTTPTrigger) string {
	scheme := "http"
	if t.Spec.TLS != nil {
		scheme = "https"
	}
	for _, host := range t.Spec.Hostnames {
		if !strings.HasPrefix(string(host), "*") {
			return fmt.Sprintf("%s://%s%s", scheme, host, t.Spec.Path)
		}
	}
	return ""
}
