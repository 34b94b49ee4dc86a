package main

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// admit sets the status of a route for its Gateways, and returns the rules of a route that a
// Gateway has accepted.
func (w *world) admit(route *gatewayv1.HTTPRoute) rules {
	before := route.Status.Parents
	// Statuses of other controllers are kept, and those of former parents are removed.
	route.Status.Parents = slices.DeleteFunc(slices.Clone(before), func(p gatewayv1.RouteParentStatus) bool {
		return p.ControllerName == controllerName
	})
	all, unresolved := w.rulesOf(route)
	accepted := false
	for _, ref := range route.Spec.ParentRefs {
		parent := w.gateway(route, ref)
		if parent == nil {
			continue
		}
		status := gatewayv1.RouteParentStatus{ParentRef: ref, ControllerName: controllerName}
		same := func(p gatewayv1.RouteParentStatus) bool {
			return p.ControllerName == controllerName && equality.Semantic.DeepEqual(p.ParentRef, ref)
		}
		if i := slices.IndexFunc(before, same); i >= 0 {
			status.Conditions = slices.Clone(before[i].Conditions)
		}
		reason := verdict(parent, route, ref)
		accepted = accepted || reason == gatewayv1.RouteReasonAccepted
		for _, c := range conditions(reason, unresolved) {
			c.ObservedGeneration = route.Generation
			meta.SetStatusCondition(&status.Conditions, c)
		}
		route.Status.Parents = append(route.Status.Parents, status)
	}
	if !accepted {
		return nil
	}
	return all
}

// conditions returns the conditions of a route: whether the listeners accept it, and whether a
// Service is missing.
func conditions(verdict gatewayv1.RouteConditionReason, unresolved string) []metav1.Condition {
	accepted := metav1.Condition{Type: string(gatewayv1.RouteConditionAccepted), Status: metav1.ConditionFalse, Reason: string(verdict), Message: "so say the listeners"}
	if verdict == gatewayv1.RouteReasonAccepted {
		accepted.Status = metav1.ConditionTrue
	}
	resolved := metav1.Condition{Type: string(gatewayv1.RouteConditionResolvedRefs), Status: metav1.ConditionTrue, Reason: string(gatewayv1.RouteReasonResolvedRefs)}
	if unresolved != "" {
		resolved.Status, resolved.Reason = metav1.ConditionFalse, string(gatewayv1.RouteReasonBackendNotFound)
		resolved.Message = fmt.Sprintf("Service %s does not exist, or has no such port", unresolved)
	}
	return []metav1.Condition{accepted, resolved}
}

// gateway returns the Gateway of a reference, if it is one of ours.
func (w *world) gateway(route *gatewayv1.HTTPRoute, ref gatewayv1.ParentReference) *gatewayv1.Gateway {
	namespace := route.Namespace
	if ref.Namespace != nil {
		namespace = string(*ref.Namespace)
	}
	for i := range w.gateways.Items {
		g := &w.gateways.Items[i]
		if g.Namespace == namespace && g.Name == string(ref.Name) && g.Spec.GatewayClassName == class {
			return g
		}
	}
	return nil
}

// verdict returns the result of a Gateway's listeners for a route. They accept routes of their
// own namespace, or of all.
func verdict(g *gatewayv1.Gateway, route *gatewayv1.HTTPRoute, ref gatewayv1.ParentReference) gatewayv1.RouteConditionReason {
	reason := gatewayv1.RouteReasonNoMatchingParent
	for _, l := range g.Spec.Listeners {
		if ref.SectionName != nil && *ref.SectionName != l.Name {
			continue
		}
		all := l.AllowedRoutes != nil && l.AllowedRoutes.Namespaces != nil && l.AllowedRoutes.Namespaces.From != nil &&
			*l.AllowedRoutes.Namespaces.From == gatewayv1.NamespacesFromAll
		switch {
		case !all && g.Namespace != route.Namespace:
			reason = gatewayv1.RouteReasonNotAllowedByListeners
		case l.Hostname != nil && !slices.ContainsFunc(route.Spec.Hostnames, func(h gatewayv1.Hostname) bool {
			below, wildcard := strings.CutPrefix(string(*l.Hostname), "*")
			return h == *l.Hostname || wildcard && strings.HasSuffix(string(h), below)
		}):
			reason = gatewayv1.RouteReasonNoMatchingListenerHostname
		default:
			return gatewayv1.RouteReasonAccepted
		}
	}
	return reason
}

// rulesOf returns the rules of a route, and the name of a missing Service.
func (w *world) rulesOf(route *gatewayv1.HTTPRoute) (all rules, unresolved string) {
	for _, from := range route.Spec.Rules {
		var to rule
		if from.Timeouts != nil && from.Timeouts.Request != nil {
			to.timeout, _ = time.ParseDuration(string(*from.Timeouts.Request)) // the schema has checked it
		}
		for _, ref := range from.BackendRefs {
			b := backend{address: w.resolve(route, ref.BackendObjectReference), weight: *ref.Weight} // 1 by default
			if b.address == "" {
				unresolved = string(ref.Name)
			}
			to.backends = append(to.backends, b)
		}
		for _, match := range from.Matches { // by default one that matches everything
			to.path, to.exact = *match.Path.Value, *match.Path.Type == gatewayv1.PathMatchExact
			for _, host := range route.Spec.Hostnames {
				to.host = string(host)
				all = append(all, to)
			}
		}
	}
	return all, unresolved
}

// resolve returns the address of a Service of the namespace, or "" if it does not exist.
func (w *world) resolve(route *gatewayv1.HTTPRoute, ref gatewayv1.BackendObjectReference) string {
	service, ok := w.services[client.ObjectKey{Namespace: route.Namespace, Name: string(ref.Name)}]
	if !ok || ref.Port == nil || ref.Namespace != nil && string(*ref.Namespace) != route.Namespace {
		return ""
	}
	return addressOf(service, *ref.Port)
}

// addressOf returns the address of a port of a Service, or "" if it has no port with that
// number.
func addressOf(service corev1.Service, port int32) string {
	if !slices.ContainsFunc(service.Spec.Ports, func(p corev1.ServicePort) bool { return p.Port == port }) {
		return ""
	}
	return net.JoinHostPort(service.Spec.ClusterIP, strconv.Itoa(int(port)))
}
