// Package gateway makes HTTPRoutes and Ingresses of HTTPTriggers, and tells what gateways say of
// the routes. It is the only package that knows the Gateway API.
package gateway

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
	"goless.io/trigger/internal/target"
	"goless.io/trigger/internal/trigger"
)

// Kind is the kind HTTPTrigger.
type Kind struct {
	// Client reads from the cache.
	Client client.Client

	// Gateways tells whether the cluster has the Gateway API.
	Gateways bool
}

// Seen is what there is of an HTTPTrigger.
type Seen struct {
	// Functions are those that get requests. One that does not exist has no UID.
	Functions map[string]v1beta1.Function

	// Rivals are the other triggers of the cluster that have one of the hostnames.
	Rivals []v1alpha1.HTTPTrigger

	// Patterns are the hostnames that a namespace may have, by its name: that of the trigger
	// and those of its rivals.
	Patterns map[string][]string

	// Route and Ingress have the name of the trigger, whoever owns them. Route is nil where
	// there is no Gateway API.
	Route   *gatewayv1.HTTPRoute
	Ingress *networkingv1.Ingress
}

// New returns an empty HTTPTrigger.
func (Kind) New() *v1alpha1.HTTPTrigger { return &v1alpha1.HTTPTrigger{} }

// Observe reads the Functions, the namespaces, the rivals and the objects.
func (k Kind) Observe(ctx context.Context, t *v1alpha1.HTTPTrigger) (Seen, error) {
	seen := Seen{Functions: map[string]v1beta1.Function{}, Patterns: map[string][]string{}, Ingress: &networkingv1.Ingress{}}
	var own, others error
	seen.Patterns[t.Namespace], own = k.patterns(ctx, t.Namespace)
	seen.Rivals, others = k.rivals(ctx, t)
	errs := []error{own, others, client.IgnoreNotFound(k.Client.Get(ctx, client.ObjectKeyFromObject(t), seen.Ingress))}
	for _, rival := range seen.Rivals {
		if _, known := seen.Patterns[rival.Namespace]; !known {
			patterns, err := k.patterns(ctx, rival.Namespace)
			errs, seen.Patterns[rival.Namespace] = append(errs, client.IgnoreNotFound(err)), patterns
		}
	}
	if k.Gateways {
		seen.Route = &gatewayv1.HTTPRoute{}
		errs = append(errs, client.IgnoreNotFound(k.Client.Get(ctx, client.ObjectKeyFromObject(t), seen.Route)))
	}
	for _, name := range t.FunctionNames() {
		var fn v1beta1.Function
		errs = append(errs, client.IgnoreNotFound(k.Client.Get(ctx, client.ObjectKey{Namespace: t.Namespace, Name: name}, &fn)))
		seen.Functions[name] = fn
	}
	if err := errors.Join(errs...); err != nil {
		return Seen{}, fmt.Errorf("reading what HTTPTrigger %q depends on: %w", t.Name, err)
	}
	return seen, nil
}

// Plan decides which of the objects should exist. While a hostname is not the trigger's, there is
// none, so that nothing serves what was taken away. A trigger that changes from an Ingress to an
// HTTPRoute, or back, keeps the one until the other can serve.
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
	if seen.Route != nil && change.Same() {
		p.Changes = append(p.Changes, apply.Gone(seen.Route))
	}
	return p
}

// routed is the plan for a trigger with parentRefs. An Ingress from before stays as it is until
// the route is accepted, unless it serves what the trigger does not ask for.
func routed(t *v1alpha1.HTTPTrigger, shares []share, seen Seen, problem *target.Problem) trigger.Plan {
	change := apply.To(route(t, shares), seen.Route, gatewayv1ac.ExtractHTTPRoute)
	p := trigger.Plan{Problem: problem, Changes: []apply.Change{change}}
	pending := &target.Problem{Reason: v1alpha1.ReasonNotAccepted, Message: "the Gateways have not seen the route yet"}
	if change.Same() {
		pending = verdict(seen.Route)
	}
	stays := pending != nil && metav1.IsControlledBy(seen.Ingress, t) && within(seen.Ingress, t)
	if !stays {
		p.Changes = append(p.Changes, apply.Gone(seen.Ingress))
	}
	if p.Problem == nil && pending != nil {
		p.Problem = pending
		if stays {
			p.Problem.Message += "; the Ingress serves until then"
		}
	}
	return p
}

// within reports whether all that an Ingress serves is what the trigger asks for.
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

// Report writes the URL, where requests are routed.
func (k Kind) Report(t *v1alpha1.HTTPTrigger, seen Seen) time.Duration {
	t.Status.URL = ""
	if shares, _ := sharesOf(t, seen); len(shares) > 0 && k.refused(t, seen) == nil {
		t.Status.URL = urlOf(t)
	}
	return 0
}

// urlOf is the URL of the first hostname that is one, and does not stand for all below it.
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
