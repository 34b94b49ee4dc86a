package gateway

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"goless.io/operator/api/v1beta1"
	"goless.io/trigger/api/v1alpha1"
)

func TestAllowed(t *testing.T) {
	patterns := []string{"shop.example.com", "*.shop.example.com", "*", "*.", "example*.org", "*example.net"}
	for host, want := range map[string]bool{
		"shop.example.com": true, "a.shop.example.com": true, "a.b.shop.example.com": true, "*.shop.example.com": true, "*.a.shop.example.com": true,
		"example.com": false, "*.example.com": false, "workshop.example.com": false, "shop.example.com.evil.org": false, "example1.org": false,
		"anexample.net": false, "bank.test": false,
	} {
		if got := allowed(host, patterns); got != want {
			t.Errorf("%s is allowed: %t, want %t", host, got, want)
		}
	}
	if allowed("shop.example.com", nil) {
		t.Error("a namespace without the annotation has a hostname")
	}
}

func named(namespace, name string, age time.Duration, path string, hosts ...v1alpha1.Hostname) v1alpha1.HTTPTrigger {
	born := time.Date(2026, time.November, 23, 0, 0, 0, 0, time.UTC).Add(-age)
	t := v1alpha1.HTTPTrigger{Spec: v1alpha1.HTTPTriggerSpec{Path: path, Hostnames: hosts}}
	t.Namespace, t.Name, t.CreationTimestamp = namespace, name, metav1.NewTime(born)
	return t
}

// Of two that want the same, exactly one has it, whoever asks.
func TestTaken(t *testing.T) {
	for name, test := range map[string]struct {
		a, b v1alpha1.HTTPTrigger
		want string // who has to wait
	}{
		"Older":      {named("x", "a", time.Hour, "/", "h"), named("y", "b", time.Minute, "/", "g", "h"), "b"},
		"SameAge":    {named("x", "a", 0, "", "h"), named("x", "b", 0, "/", "h"), "b"},
		"OtherPath":  {named("x", "a", time.Hour, "/", "h"), named("x", "b", 0, "/b", "h"), ""},
		"OtherHost":  {named("x", "a", time.Hour, "/", "h"), named("x", "b", 0, "/", "*.h"), ""},
		"Namespaces": {named("z", "a", 0, "/", "h"), named("y", "b", 0, "/", "h"), "a"},
	} {
		t.Run(name, func(t *testing.T) {
			test.a.UID, test.b.UID = "1", "2"
			waits := ""
			for _, own := range []v1alpha1.HTTPTrigger{test.a, test.b} {
				if _, by := taken(&own, []v1alpha1.HTTPTrigger{test.b, test.a}); by != nil {
					waits += own.Name
				}
			}
			if waits != test.want {
				t.Errorf("%q has to wait, want %q", waits, test.want)
			}
		})
	}
}

// A trigger is ready when all of its Gateways have accepted what it is now.
func TestVerdict(t *testing.T) {
	parent := func(kind, status string, generation int64) gatewayv1.RouteParentStatus {
		return gatewayv1.RouteParentStatus{ParentRef: gatewayv1.ParentReference{Name: "public"}, Conditions: []metav1.Condition{{
			Type: kind, Status: metav1.ConditionStatus(status), Reason: "Why", Message: "so it is", ObservedGeneration: generation,
		}}}
	}
	for name, test := range map[string]struct {
		parents []gatewayv1.RouteParentStatus
		want    string
	}{
		"Nothing":    {nil, "0 of 2 Gateways have accepted the route"},
		"One":        {[]gatewayv1.RouteParentStatus{parent("Accepted", "True", 3)}, "1 of 2 Gateways have accepted the route"},
		"Both":       {[]gatewayv1.RouteParentStatus{parent("Accepted", "True", 3), parent("Accepted", "True", 3)}, ""},
		"Before":     {[]gatewayv1.RouteParentStatus{parent("Accepted", "True", 3), parent("Accepted", "True", 2)}, "1 of 2 Gateways have accepted the route"},
		"Refused":    {[]gatewayv1.RouteParentStatus{parent("Accepted", "False", 3), parent("Accepted", "True", 3)}, "Gateway public says Why: so it is"},
		"Unresolved": {[]gatewayv1.RouteParentStatus{parent("ResolvedRefs", "False", 3)}, "Gateway public says Why: so it is"},
	} {
		t.Run(name, func(t *testing.T) {
			trigger := &v1alpha1.HTTPTrigger{Spec: v1alpha1.HTTPTriggerSpec{ParentRefs: make([]v1alpha1.ParentReference, 2)}}
			route := &gatewayv1.HTTPRoute{ObjectMeta: metav1.ObjectMeta{Generation: 3}}
			route.Status.Parents = test.parents
			got := ""
			if problem := verdict(trigger, route); problem != nil {
				got = problem.Message
			}
			if got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// A route takes as long as its slowest Function, and as one takes to wake.
func TestTimeout(t *testing.T) {
	for name, test := range map[string]struct {
		timeouts []time.Duration
		want     string
	}{
		"One":      {[]time.Duration{time.Second}, "71s"},
		"Longest":  {[]time.Duration{time.Second, 30 * time.Second, 2 * time.Second}, "100s"},
		"Fraction": {[]time.Duration{1500 * time.Millisecond}, "72s"},
		"None":     {[]time.Duration{time.Second, 0, 2 * time.Second}, "<nil>"},
		"First":    {[]time.Duration{0, time.Second}, "<nil>"},
	} {
		t.Run(name, func(t *testing.T) {
			trigger := named("shop", "a", 0, "/", "h")
			seen := Seen{Functions: map[string]v1beta1.Function{}}
			for i, timeout := range test.timeouts {
				fn := v1beta1.Function{ObjectMeta: metav1.ObjectMeta{UID: "1"}, Spec: v1beta1.FunctionSpec{Timeout: &metav1.Duration{Duration: timeout}}}
				fn.Status.Service = fmt.Sprint("f", i)
				seen.Functions[fn.Status.Service] = fn
				trigger.Spec.Backends = append(trigger.Spec.Backends, v1alpha1.Backend{Function: fn.Status.Service})
			}
			shares, _ := sharesOf(&trigger, seen)
			got := "<nil>"
			if timeouts := route(&trigger, shares).Spec.Rules[0].Timeouts; timeouts != nil {
				got = string(*timeouts.Request)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("the timeout (-want +got):\n%s", diff)
			}
		})
	}
}
