package gateway

import (
	"cmp"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"goless.io/trigger/api/v1alpha1"
	"goless.io/trigger/internal/functionref"
)

// verdict returns the reason why the Gateways do not serve the route, or nil if all of its parents
// have accepted it. Conditions of older generations are ignored, and so are conditions of Gateways
// that are no longer parents.
func verdict(route *gatewayv1.HTTPRoute) *functionref.Problem {
	accepted := 0
	for _, ref := range route.Spec.ParentRefs {
		conditions := said(route, ref)
		for _, c := range conditions {
			if objects(c) {
				message := fmt.Sprintf("Gateway %s reports %s", ref.Name, c.Reason)
				if c.Message != "" { // some controllers set only the reason
					message += ": " + c.Message
				}
				return &functionref.Problem{Reason: v1alpha1.ReasonNotAccepted, Message: message}
			}
		}
		if slices.ContainsFunc(conditions, accepts) && !slices.ContainsFunc(conditions, isPending) {
			accepted++
		}
	}
	if wanted := len(route.Spec.ParentRefs); accepted < wanted {
		return &functionref.Problem{Reason: v1alpha1.ReasonNotAccepted, Message: fmt.Sprintf("%d of %d Gateways accepted the route", accepted, wanted)}
	}
	return nil
}

// said returns the conditions that a parent has set for the current generation of a route.
func said(route *gatewayv1.HTTPRoute, ref gatewayv1.ParentReference) (conditions []metav1.Condition) {
	for _, parent := range route.Status.Parents {
		if sameParent(ref, parent.ParentRef, route.Namespace) {
			conditions = append(conditions, parent.Conditions...)
		}
	}
	return slices.DeleteFunc(conditions, func(c metav1.Condition) bool { return c.ObservedGeneration < route.Generation })
}

func accepts(c metav1.Condition) bool {
	return c.Type == string(gatewayv1.RouteConditionAccepted) && c.Status == metav1.ConditionTrue
}

// programmed is a condition of Gateways and listeners that some controllers also set on routes. It
// means that the proxies are configured.
const programmed = string(gatewayv1.GatewayConditionProgrammed)

// objects reports whether a condition means that a route does not work, or only in part. Conditions
// that are specific to one implementation are ignored.
func objects(c metav1.Condition) bool {
	switch c.Type {
	case string(gatewayv1.RouteConditionAccepted), string(gatewayv1.RouteConditionResolvedRefs), programmed:
		return c.Status == metav1.ConditionFalse
	case string(gatewayv1.RouteConditionPartiallyInvalid):
		return c.Status == metav1.ConditionTrue
	}
	return false
}

// isPending reports whether a condition means that it is not known yet whether a route works.
func isPending(c metav1.Condition) bool {
	return c.Status == metav1.ConditionUnknown && (c.Type == string(gatewayv1.RouteConditionResolvedRefs) || c.Type == programmed)
}

// sameParent reports whether two references from a namespace refer to the same listeners of the
// same Gateway.
func sameParent(a, b gatewayv1.ParentReference, namespace string) bool {
	home := gatewayv1.Namespace(namespace)
	return a.Name == b.Name &&
		value(a.Group, gatewayv1.GroupName) == value(b.Group, gatewayv1.GroupName) &&
		value(a.Kind, "Gateway") == value(b.Kind, "Gateway") &&
		value(a.Namespace, home) == value(b.Namespace, home) &&
		value(a.SectionName, "") == value(b.SectionName, "")
}

// value returns the value of an optional field, or its default.
func value[T ~string](field *T, otherwise T) T {
	if field == nil {
		return otherwise
	}
	return cmp.Or(*field, otherwise)
}
