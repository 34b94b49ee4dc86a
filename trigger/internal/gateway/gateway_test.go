package gateway

import (
	"fmt"
	"testing"
	"time"

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

func routedBy(gateway string, t v1alpha1.HTTPTrigger) v1alpha1.HTTPTrigger {
	t.Spec.ParentRefs = []v1alpha1.ParentReference{{Name: gateway}}
	return t
}

func classed(class string, t v1alpha1.HTTPTrigger) v1alpha1.HTTPTrigger {
	t.Spec.IngressClassName = class
	return t
}

// Exactly one of two triggers in conflict gets the hostname, whichever is reconciled. A trigger
// that may not use a hostname does not prevent another from using it. Two triggers of a namespace
// both get it if different proxies serve them.
func TestTaken(t *testing.T) {
	patterns := map[string][]string{"x": {"*.test"}, "y": {"a.test", "*.a.test", "b.test"}, "z": {"*.test"}, "thief": nil, "half": {"a.test"}}
	for name, test := range map[string]struct {
		a, b v1alpha1.HTTPTrigger
		want string // the trigger that is not ready
	}{
		"Older":      {named("x", "a", time.Hour, "/", "a.test"), named("y", "b", time.Minute, "/", "b.test", "a.test"), "b"},
		"SameAge":    {named("x", "a", 0, "/", "a.test"), named("x", "b", 0, "/", "a.test"), "b"},
		"OtherPath":  {named("x", "a", time.Hour, "/", "a.test"), named("x", "b", 0, "/b", "a.test"), ""},
		"OtherHost":  {named("x", "a", time.Hour, "/", "a.test"), named("y", "b", 0, "/", "*.a.test"), ""},
		"Namespaces": {named("z", "a", 0, "/", "a.test"), named("y", "b", 0, "/", "a.test"), "a"},
		"NotAllowed": {named("thief", "a", time.Hour, "/", "a.test"), named("y", "b", 0, "/", "a.test"), ""},
		"Moved":      {named("x", "a", time.Hour, "/", "a.test"), routedBy("g", named("x", "b", 0, "/", "a.test")), ""},
		"MovedBack":  {routedBy("g", named("x", "a", time.Hour, "/", "a.test")), named("x", "b", 0, "/", "a.test"), ""},
		"MovedAway":  {named("x", "a", time.Hour, "/", "a.test"), routedBy("g", named("y", "b", 0, "/", "a.test")), "b"},
		"TwoRoutes":  {routedBy("g", named("x", "a", time.Hour, "/", "a.test")), routedBy("h", named("x", "b", 0, "/", "a.test")), "b"},
		"Classes":    {classed("old", named("x", "a", time.Hour, "/", "a.test")), classed("new", named("x", "b", 0, "/", "a.test")), ""},
		"SameClass":  {classed("old", named("x", "a", time.Hour, "/", "a.test")), classed("old", named("x", "b", 0, "/", "a.test")), "b"},
		"Default":    {named("x", "a", time.Hour, "/", "a.test"), classed("new", named("x", "b", 0, "/", "a.test")), "b"},
		"AllAreHeld": {named("half", "a", time.Hour, "/", "a.test", "b.test"), named("y", "b", 0, "/", "a.test"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			test.a.UID, test.b.UID = "1", "2"
			waits := ""
			for own, competitor := range map[*v1alpha1.HTTPTrigger]v1alpha1.HTTPTrigger{&test.a: test.b, &test.b: test.a} {
				if _, by := taken(own, Seen{Competing: []v1alpha1.HTTPTrigger{competitor}, Patterns: patterns}); by != nil {
					waits += own.Name
				}
			}
			if waits != test.want {
				t.Errorf("%q has to wait, want %q", waits, test.want)
			}
		})
	}
}

// The URL contains a hostname without a wildcard, and is set while there is a route.
func TestURL(t *testing.T) {
	serves := v1beta1.Function{ObjectMeta: metav1.ObjectMeta{UID: "1"}, Status: v1beta1.FunctionStatus{Service: "report"}}
	for name, test := range map[string]struct {
		hosts    []v1alpha1.Hostname
		function v1beta1.Function
		tls      *v1alpha1.IngressTLS
		want     string
	}{
		"One":       {hosts: []v1alpha1.Hostname{"a.test"}, function: serves, want: "http://a.test/reports"},
		"TLS":       {hosts: []v1alpha1.Hostname{"a.test"}, function: serves, tls: &v1alpha1.IngressTLS{}, want: "https://a.test/reports"},
		"Wildcard":  {hosts: []v1alpha1.Hostname{"*.test", "a.test"}, function: serves, want: "http://a.test/reports"},
		"Wildcards": {hosts: []v1alpha1.Hostname{"*.test"}, function: serves},
		"NoService": {hosts: []v1alpha1.Hostname{"a.test"}},
		"Refused":   {hosts: []v1alpha1.Hostname{"bank.example"}, function: serves},
	} {
		t.Run(name, func(t *testing.T) {
			trigger := named("shop", "a", 0, "/reports", test.hosts...)
			trigger.Spec.FunctionRef, trigger.Spec.TLS = &v1alpha1.FunctionReference{Name: "report"}, test.tls
			trigger.Status.URL = "http://before.test/"
			Kind{}.Report(&trigger, Seen{
				Functions: map[string]v1beta1.Function{"report": test.function}, Patterns: map[string][]string{"shop": {"*.test"}},
			})
			if trigger.Status.URL != test.want {
				t.Errorf("got %q, want %q", trigger.Status.URL, test.want)
			}
		})
	}
}

// A trigger is ready when each of its Gateways has accepted its current generation and no condition
// reports that it does not work.
func TestVerdict(t *testing.T) {
	says := func(gateway, kind, status string, generation int64) gatewayv1.RouteParentStatus {
		return gatewayv1.RouteParentStatus{ParentRef: gatewayv1.ParentReference{Name: gatewayv1.ObjectName(gateway)}, Conditions: []metav1.Condition{{
			Type: kind, Status: metav1.ConditionStatus(status), Reason: "Why", Message: "so it is", ObservedGeneration: generation,
		}}}
	}
	elsewhere := says("b", "Accepted", "True", 3)
	elsewhere.ParentRef.Namespace = new(gatewayv1.Namespace("elsewhere"))
	spelledOut := says("b", "Accepted", "True", 3)
	spelledOut.ParentRef.Group, spelledOut.ParentRef.Kind = new(gatewayv1.Group(gatewayv1.GroupName)), new(gatewayv1.Kind("Gateway"))
	spelledOut.ParentRef.Namespace = new(gatewayv1.Namespace("shop"))
	a := says("a", "Accepted", "True", 3)
	silent := says("b", "Accepted", "False", 3)
	silent.Conditions[0].Message = ""
	for name, test := range map[string]struct {
		parents []gatewayv1.RouteParentStatus
		want    string
	}{
		"Nothing":    {nil, "0 of 2 Gateways accepted the route"},
		"One":        {[]gatewayv1.RouteParentStatus{a}, "1 of 2 Gateways accepted the route"},
		"OneTwice":   {[]gatewayv1.RouteParentStatus{a, a}, "1 of 2 Gateways accepted the route"},
		"Both":       {[]gatewayv1.RouteParentStatus{a, says("b", "Accepted", "True", 3)}, ""},
		"SpelledOut": {[]gatewayv1.RouteParentStatus{a, spelledOut}, ""},
		"Elsewhere":  {[]gatewayv1.RouteParentStatus{a, elsewhere}, "1 of 2 Gateways accepted the route"},
		"Before":     {[]gatewayv1.RouteParentStatus{a, says("b", "Accepted", "True", 2)}, "1 of 2 Gateways accepted the route"},
		"Refused":    {[]gatewayv1.RouteParentStatus{says("b", "Accepted", "False", 3), a}, "Gateway b reports Why: so it is"},
		"Silent":     {[]gatewayv1.RouteParentStatus{silent}, "Gateway b reports Why"},
		"Unknown":    {[]gatewayv1.RouteParentStatus{a, says("b", "Accepted", "True", 3), says("b", "ResolvedRefs", "Unknown", 3)}, "1 of 2 Gateways accepted the route"},
		"Programmed": {[]gatewayv1.RouteParentStatus{a, says("b", "Accepted", "True", 3), says("b", "Programmed", "False", 3)}, "Gateway b reports Why: so it is"},
		"Unresolved": {[]gatewayv1.RouteParentStatus{says("b", "ResolvedRefs", "False", 3)}, "Gateway b reports Why: so it is"},
		"Partly":     {[]gatewayv1.RouteParentStatus{says("b", "PartiallyInvalid", "True", 3)}, "Gateway b reports Why: so it is"},
		"Wholly":     {[]gatewayv1.RouteParentStatus{a, says("b", "PartiallyInvalid", "False", 3), says("b", "Accepted", "True", 3)}, ""},
		"ItsOwn":     {[]gatewayv1.RouteParentStatus{a, says("b", "example.com/Cached", "False", 3), says("b", "Accepted", "True", 3)}, ""},
		"Former":     {[]gatewayv1.RouteParentStatus{a, says("c", "Accepted", "False", 3), says("b", "Accepted", "True", 3)}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			route := &gatewayv1.HTTPRoute{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Generation: 3}}
			route.Spec.ParentRefs = []gatewayv1.ParentReference{{Name: "a"}, {Name: "b"}}
			route.Status.Parents = test.parents
			got := ""
			if problem := verdict(route); problem != nil {
				got = problem.Message
			}
			if got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// The timeout of a route is that of its slowest Function plus the time to wake, or spec.timeout. A
// route without a timeout does not have the field, which some Gateways reject.
func TestTimeout(t *testing.T) {
	for name, test := range map[string]struct {
		timeouts []time.Duration // of the Functions
		own      *metav1.Duration
		want     string // "" if the field is absent
	}{
		"One":      {timeouts: []time.Duration{time.Second}, want: "71s"},
		"Longest":  {timeouts: []time.Duration{time.Second, 30 * time.Second, 2 * time.Second}, want: "100s"},
		"Fraction": {timeouts: []time.Duration{1500 * time.Millisecond}, want: "72s"},
		"None":     {timeouts: []time.Duration{time.Second, 0, 2 * time.Second}},
		"First":    {timeouts: []time.Duration{0, time.Second}},
		"Own":      {timeouts: []time.Duration{time.Second}, own: &metav1.Duration{Duration: 90 * time.Minute}, want: "5400s"},
		"OwnNone":  {timeouts: []time.Duration{time.Second}, own: &metav1.Duration{}},
	} {
		t.Run(name, func(t *testing.T) {
			trigger := named("shop", "a", 0, "/", "h")
			trigger.Spec.Timeout = test.own
			seen := Seen{Functions: map[string]v1beta1.Function{}}
			for i, timeout := range test.timeouts {
				fn := v1beta1.Function{ObjectMeta: metav1.ObjectMeta{UID: "1"}, Spec: v1beta1.FunctionSpec{Timeout: &metav1.Duration{Duration: timeout}}}
				fn.Status.Service = fmt.Sprint("f", i)
				seen.Functions[fn.Status.Service] = fn
				trigger.Spec.Backends = append(trigger.Spec.Backends, v1alpha1.Backend{Function: fn.Status.Service})
			}
			shares, _ := sharesOf(&trigger, seen)
			got := ""
			if timeouts := route(&trigger, shares).Spec.Rules[0].Timeouts; timeouts != nil {
				got = string(*timeouts.Request)
			}
			if got != test.want {
				t.Errorf("the timeout is %q, want %q", got, test.want)
			}
		})
	}
}
