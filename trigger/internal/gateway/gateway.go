// Package gateway makes HTTPRoutes and Ingresses of HTTPTriggers, and tells what gateways say of
// the routes. It is the only package that knows the Gateway API.
package gateway

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
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

// recheck is after how long a trigger is looked at again whose hostname is taken.
const recheck = time.Minute

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

	// Patterns are the hostnames that the namespace may have.
	Patterns []string

	// Triggers are all of the cluster.
	Triggers []v1alpha1.HTTPTrigger

	// Route and Ingress have the name of the trigger, whoever owns them. Route is nil where
	// there is no Gateway API.
	Route   *gatewayv1.HTTPRoute
	Ingress *networkingv1.Ingress
}

// New returns an empty HTTPTrigger.
func (Kind) New() *v1alpha1.HTTPTrigger { return &v1alpha1.HTTPTrigger{} }

// Observe reads the Functions, the namespace, the other triggers and the objects.
func (k Kind) Observe(ctx context.Context, t *v1alpha1.HTTPTrigger) (Seen, error) {
	seen := Seen{Functions: map[string]v1beta1.Function{}, Ingress: &networkingv1.Ingress{}}
	var namespace corev1.Namespace
	var all v1alpha1.HTTPTriggerList
	errs := []error{
		k.Client.Get(ctx, client.ObjectKey{Name: t.Namespace}, &namespace),
		k.Client.List(ctx, &all),
		client.IgnoreNotFound(k.Client.Get(ctx, client.ObjectKeyFromObject(t), seen.Ingress)),
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
	seen.Patterns, seen.Triggers = strings.Fields(namespace.Annotations[v1alpha1.HostnamesAnnotation]), all.Items
	return seen, nil
}

// Plan decides which of the objects there shall be. While a hostname is not the trigger's, there
// is none, so that nothing serves what was taken away.
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
	p := trigger.Plan{Problem: problem}
	if len(t.Spec.ParentRefs) == 0 {
		p.Changes = []apply.Change{apply.To(ingress(t, shares[0]), seen.Ingress, networkingv1ac.ExtractIngress)}
		if seen.Route != nil {
			p.Changes = append(p.Changes, apply.Gone(seen.Route))
		}
		return p
	}
	change := apply.To(route(t, shares), seen.Route, gatewayv1ac.ExtractHTTPRoute)
	p.Changes = []apply.Change{change, apply.Gone(seen.Ingress)}
	switch {
	case p.Problem != nil:
	case change.Same():
		p.Problem = verdict(t, seen.Route)
	default:
		p.Problem = &target.Problem{Reason: v1alpha1.ReasonNotAccepted, Message: "the Gateways have not seen the route yet"}
	}
	return p
}

// refused is why a trigger may have no route; nil when it may.
func (k Kind) refused(t *v1alpha1.HTTPTrigger, seen Seen) *target.Problem {
	if len(t.Spec.ParentRefs) > 0 && !k.Gateways {
		return &target.Problem{
			Reason: v1alpha1.ReasonNoGatewayAPI, Stalled: true,
			Message: "spec.parentRefs: the cluster has no HTTPRoutes of the Gateway API; after it was installed, restart goless-triggers",
		}
	}
	for _, host := range t.Spec.Hostnames {
		if !allowed(string(host), seen.Patterns) {
			return &target.Problem{Reason: v1alpha1.ReasonHostnameNotAllowed, Stalled: true, Message: fmt.Sprintf(
				"spec.hostnames: %s is not for namespace %s, whose annotation %s has %q: an administrator can add it there",
				host, t.Namespace, v1alpha1.HostnamesAnnotation, strings.Join(seen.Patterns, " "))}
		}
	}
	if host, by := taken(t, seen.Triggers); by != nil {
		whose := "HTTPTrigger " + by.Name
		if by.Namespace != t.Namespace {
			whose = "a trigger of another namespace" // which is nobody's business here
		}
		return &target.Problem{
			Reason: v1alpha1.ReasonHostnameTaken, Stalled: true,
			Message: fmt.Sprintf("spec.hostnames: %s with the path %s is taken by %s, which is older", host, pathOf(t), whose),
		}
	}
	return nil
}

// allowed tells whether a hostname is one of the patterns, or below one that begins with *.
func allowed(host string, patterns []string) bool {
	for _, p := range patterns {
		if below, ok := strings.CutPrefix(p, "*"); host == p || ok && strings.HasPrefix(below, ".") && strings.HasSuffix(host, below) {
			return true
		}
	}
	return false
}

// taken returns a hostname that an older trigger has with the same path, and that trigger.
func taken(t *v1alpha1.HTTPTrigger, all []v1alpha1.HTTPTrigger) (v1alpha1.Hostname, *v1alpha1.HTTPTrigger) {
	for i := range all {
		other := &all[i]
		if other.UID == t.UID || pathOf(other) != pathOf(t) || !older(other, t) {
			continue
		}
		for _, host := range other.Spec.Hostnames {
			for _, own := range t.Spec.Hostnames {
				if host == own {
					return own, other
				}
			}
		}
	}
	return "", nil
}

// older tells whether a comes before b: by age, and then by name.
func older(a, b *v1alpha1.HTTPTrigger) bool {
	if !a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.CreationTimestamp.Before(&b.CreationTimestamp)
	}
	return a.Namespace+"/"+a.Name < b.Namespace+"/"+b.Name
}

// Report writes the URL.
func (k Kind) Report(t *v1alpha1.HTTPTrigger, seen Seen) time.Duration {
	t.Status.URL = ""
	problem := k.refused(t, seen)
	switch {
	case problem == nil:
		scheme := "http"
		if t.Spec.TLS != nil {
			scheme = "https"
		}
		t.Status.URL = fmt.Sprintf("%s://%s%s", scheme, t.Spec.Hostnames[0], pathOf(t))
	case problem.Reason == v1alpha1.ReasonHostnameTaken:
		return recheck
	}
	return 0
}

// verdict is what a Gateway holds against the route; nil when all have accepted it.
func verdict(t *v1alpha1.HTTPTrigger, route *gatewayv1.HTTPRoute) *target.Problem {
	accepted := 0
	for _, parent := range route.Status.Parents {
		for _, c := range parent.Conditions {
			switch {
			case c.ObservedGeneration < route.Generation:
			case c.Status == metav1.ConditionFalse:
				return &target.Problem{Reason: v1alpha1.ReasonNotAccepted, Message: fmt.Sprintf("Gateway %s says %s: %s", parent.ParentRef.Name, c.Reason, c.Message)}
			case c.Type == string(gatewayv1.RouteConditionAccepted) && c.Status == metav1.ConditionTrue:
				accepted++
			}
		}
	}
	if accepted < len(t.Spec.ParentRefs) {
		return &target.Problem{Reason: v1alpha1.ReasonNotAccepted, Message: fmt.Sprintf("%d of %d Gateways have accepted the route", accepted, len(t.Spec.ParentRefs))}
	}
	return nil
}

func pathOf(t *v1alpha1.HTTPTrigger) string {
	if t.Spec.Path == "" {
		return "/"
	}
	return t.Spec.Path
}
