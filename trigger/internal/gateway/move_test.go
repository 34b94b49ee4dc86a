package gateway

import (
	"testing"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"goless.io/trigger/api/v1alpha1"
)

// The former object of a trigger is kept for some seconds after the new one was accepted or
// created, unless it serves something that the trigger no longer requests.
func TestSettling(t *testing.T) {
	now := time.Date(2026, time.November, 27, 0, 0, 0, 0, time.UTC)
	const host, other = "a.test", "b.test"
	for name, test := range map[string]struct {
		gateway bool // whether the trigger has parentRefs
		age     time.Duration
		host    string // of the former object
		path    string
		owner   string        // of the former object
		newest  time.Duration // age of the newest Gateway; 0 if it is unknown
		want    time.Duration
	}{
		"ToGateway":        {true, 2 * time.Second, host, "/", "1", 0, settle - 2*time.Second},
		"ToGatewayLater":   {true, settle, host, "/", "1", 0, 0},
		"ToGatewaySkewed":  {true, -time.Hour, host, "/", "1", 0, settle},
		"ToGatewayHost":    {true, 0, other, "/", "1", 0, 0},
		"ToGatewayPath":    {true, 0, host, "/b", "1", 0, 0},
		"ToGatewayForeign": {true, 0, host, "/", "2", 0, 0},
		"ToNewGateway":     {true, time.Hour, host, "/", "1", 2 * time.Second, settle - 2*time.Second},
		"ToOlderGateway":   {true, 2 * time.Second, host, "/", "1", time.Hour, settle - 2*time.Second},
		"ToIngress":        {false, 2 * time.Second, host, "/", "1", 0, settle - 2*time.Second},
		"ToIngressLater":   {false, settle, host, "/", "1", 0, 0},
		"ToIngressHost":    {false, 0, other, "/", "1", 0, 0},
		"ToIngressPath":    {false, 0, host, "/b", "1", 0, 0},
		"ToIngressForeign": {false, 0, host, "/", "2", 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			trigger := named("shop", "a", 0, "/", host)
			trigger.UID = "1"
			ingress := &networkingv1.Ingress{Spec: networkingv1.IngressSpec{Rules: []networkingv1.IngressRule{{
				Host: test.host, IngressRuleValue: networkingv1.IngressRuleValue{HTTP: &networkingv1.HTTPIngressRuleValue{Paths: []networkingv1.HTTPIngressPath{{Path: test.path}}}},
			}}}}
			route := &gatewayv1.HTTPRoute{Spec: gatewayv1.HTTPRouteSpec{
				Hostnames: []gatewayv1.Hostname{gatewayv1.Hostname(test.host)},
				Rules:     []gatewayv1.HTTPRouteRule{{Matches: []gatewayv1.HTTPRouteMatch{{Path: &gatewayv1.HTTPPathMatch{Value: &test.path}}}}},
			}}
			since := metav1.NewTime(now.Add(-test.age))
			ingress.CreationTimestamp = since
			route.Status.Parents = []gatewayv1.RouteParentStatus{{Conditions: []metav1.Condition{{
				Type: string(gatewayv1.RouteConditionAccepted), Status: metav1.ConditionTrue, LastTransitionTime: since,
			}}}}
			owner := []metav1.OwnerReference{{UID: types.UID(test.owner), Controller: new(true)}}
			if test.gateway {
				trigger = routedBy("g", trigger)
				ingress.OwnerReferences = owner
			} else {
				route.OwnerReferences = owner
			}
			seen := Seen{Ingress: ingress, Route: route, Now: now}
			if test.newest > 0 {
				seen.Newest = now.Add(-test.newest)
			}
			if got := settling(&trigger, seen); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
	trigger := named("shop", "a", 0, "/", host)
	for _, tr := range []v1alpha1.HTTPTrigger{trigger, routedBy("g", trigger)} {
		if got := settling(&tr, Seen{Ingress: &networkingv1.Ingress{}, Now: now}); got != 0 {
			t.Errorf("without the Gateway API: %s, want 0s", got)
		}
	}
}
