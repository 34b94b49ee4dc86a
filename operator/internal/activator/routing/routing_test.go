package routing

import (
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/activator/backend"
)

var now = time.Date(2026, time.November, 1, 12, 0, 0, 0, time.UTC)

// settle is the Settle of all Observations.
const settle = 15 * time.Second

func ago(seconds int) time.Time { return now.Add(-time.Duration(seconds) * time.Second) }

func TestNeedsActivators(t *testing.T) {
	for name, test := range map[string]struct {
		observation Observation
		want        bool
		recheck     time.Duration
	}{
		"NoPod":            {Observation{}, true, 0},
		"NoPodButRouted":   {Observation{Routed: true}, true, 0},
		"JustReady":        {Observation{Routed: true, Ready: []time.Time{ago(1)}}, true, 14 * time.Second},
		"JustReadyUnnamed": {Observation{Ready: []time.Time{ago(1)}}, false, 0},
		"ReadyForLong":     {Observation{Routed: true, Ready: []time.Time{ago(15)}}, false, 0},
		"OneReadyForLong":  {Observation{Routed: true, Ready: []time.Time{ago(2), ago(15), ago(1)}}, false, 0},
		"Falling":          {Observation{Routed: true, Ready: []time.Time{ago(99)}, ScaleDown: ScaleDown{RoutedAt: ago(3)}}, true, 0},
		"FallingUnnamed":   {Observation{Ready: []time.Time{ago(99)}, ScaleDown: ScaleDown{RoutedAt: ago(3)}}, true, 0},
		"Scaled":           {Observation{Routed: true, Ready: []time.Time{ago(99)}, ScaleDown: ScaleDown{RoutedAt: ago(20), ScaledAt: ago(5)}}, true, 10 * time.Second},
		"Asleep":           {Observation{Routed: true, ScaleDown: ScaleDown{RoutedAt: ago(20), ScaledAt: ago(5)}}, true, 0},
		"ScaledInVain":     {Observation{Routed: true, Ready: []time.Time{ago(99)}, ScaleDown: ScaleDown{RoutedAt: ago(40), ScaledAt: ago(15)}}, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			test.observation.Now, test.observation.Settle = now, settle
			if got, recheck := test.observation.NeedsActivators(); got != test.want || recheck != test.recheck {
				t.Errorf("activators %t, recheck after %s, want %t, %s", got, recheck, test.want, test.recheck)
			}
		})
	}
}

func TestNextStep(t *testing.T) {
	const sleepAfter = time.Minute
	for name, test := range map[string]struct {
		scaleDown ScaleDown
		idle      int // seconds
		step      Step
		after     time.Duration
	}{
		"Busy":              {ScaleDown{}, 0, Wait, time.Minute},
		"IdleForALittle":    {ScaleDown{}, 40, Wait, 20 * time.Second},
		"Idle":              {ScaleDown{}, 60, Route, 0},
		"Named":             {ScaleDown{RoutedAt: ago(5)}, 65, Wait, 10 * time.Second},
		"CalledAfterNaming": {ScaleDown{RoutedAt: ago(5)}, 4, Cancel, 0},
		"Settled":           {ScaleDown{RoutedAt: ago(15)}, 75, ScaleToZero, 0},
		"SettledButCalled":  {ScaleDown{RoutedAt: ago(15)}, 14, Cancel, 0},
		"SettledAndBusy":    {ScaleDown{RoutedAt: ago(15)}, 0, Cancel, 0},
	} {
		t.Run(name, func(t *testing.T) {
			step, after := NextStep(Observation{Now: now, Settle: settle, Ready: []time.Time{ago(99)}, ScaleDown: test.scaleDown}, sleepAfter, time.Duration(test.idle)*time.Second)
			if step != test.step || after != test.after {
				t.Errorf("%s after %s, want %s after %s", step, after, test.step, test.after)
			}
		})
	}
}

// A released port is reused last.
func TestPorts(t *testing.T) {
	p := NewPorts()
	used := map[int32]bool{}
	first, _ := p.Next(func(int32) bool { return false })
	for port, ok := first, true; ok; port, ok = p.Next(func(n int32) bool { return used[n] }) {
		if used[port] || port < FirstPort || port > LastPort {
			t.Fatalf("port %d is used or out of range", port)
		}
		if used[port] = true; len(used) == 100 {
			delete(used, first) // release it
		}
	}
	if n := int(LastPort - FirstPort + 1); len(used) != n {
		t.Errorf("%d ports were assigned, want %d", len(used), n)
	}
}

func TestSlice(t *testing.T) {
	hello := backend.Backend{
		Service: types.NamespacedName{Namespace: "default", Name: "greeting"}, UID: "1",
		Function: types.NamespacedName{Namespace: "default", Name: "hello"}, AppProtocol: new("kubernetes.io/h2c"),
	}
	addresses := endpoints("10.0.0.2", "fd00::1", "10.0.0.1")
	for family, want := range map[corev1.IPFamily]struct {
		name      string
		kind      discoveryv1.AddressType
		addresses []string
	}{
		corev1.IPv4Protocol: {"greeting-activator", discoveryv1.AddressTypeIPv4, []string{"10.0.0.1", "10.0.0.2"}},
		corev1.IPv6Protocol: {"greeting-activator-ipv6", discoveryv1.AddressTypeIPv6, []string{"fd00::1"}},
	} {
		s := Slice(hello, family, 12345, addresses)
		var got []string
		for _, a := range Addresses(s) {
			got = append(got, a.String())
		}
		if diff := cmp.Diff(want.addresses, got); diff != "" || s.Name != want.name || s.AddressType != want.kind || PortOf(s) != 12345 || *s.Ports[0].AppProtocol != "kubernetes.io/h2c" {
			t.Errorf("%s: %s %s, port %d, addresses (-want +got):\n%s", family, s.Name, s.AddressType, PortOf(s), diff)
		}
		if !BelongsTo(s, hello) {
			t.Errorf("%s: does not belong to its function", family)
		}
		if !Equal(s, Slice(hello, family, 12345, addresses)) {
			t.Errorf("%s: not equal to an identical slice", family)
		}
		checkEndpoints(t, s)
	}
}

// checkEndpoints checks the node name and pod reference of each endpoint.
func checkEndpoints(t *testing.T, s *discoveryv1.EndpointSlice) {
	t.Helper()
	for _, e := range s.Endpoints {
		want := corev1.ObjectReference{Kind: "Pod", Namespace: "goless-system", Name: "pod-" + e.Addresses[0], UID: "3"}
		if *e.NodeName != "node-"+e.Addresses[0] || *e.TargetRef != want {
			t.Errorf("%s: endpoint %s has node %s and target %v", s.Name, e.Addresses[0], *e.NodeName, e.TargetRef)
		}
	}
}

// endpoints returns activator endpoints with these addresses.
func endpoints(addresses ...string) (all []Endpoint) {
	for _, a := range addresses {
		all = append(all, Endpoint{
			Address: netip.MustParseAddr(a), Node: "node-" + a, Pod: types.NamespacedName{Namespace: "goless-system", Name: "pod-" + a}, UID: "3",
		})
	}
	return all
}

// Annotations that the operator reads are replaced, and others are kept.
func TestSetAnnotations(t *testing.T) {
	current := &discoveryv1.EndpointSlice{}
	current.Annotations = map[string]string{"example.com/other": "x", v1beta1.WakeFailedAnnotation: "old"}
	desired := &discoveryv1.EndpointSlice{}
	SetAnnotations(desired, current, map[string]string{v1beta1.StaysAwakeAnnotation: "new", v1beta1.WakeFailedAnnotation: ""})
	want := map[string]string{"example.com/other": "x", v1beta1.StaysAwakeAnnotation: "new"}
	if diff := cmp.Diff(want, desired.Annotations); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// An EndpointSlice of another client or of a deleted Service does not belong to the function.
func TestBelongsTo(t *testing.T) {
	hello := backend.Backend{Service: types.NamespacedName{Namespace: "default", Name: "greeting"}, UID: "1"}
	for name, change := range map[string]func(*discoveryv1.EndpointSlice){
		"Name":    func(s *discoveryv1.EndpointSlice) { s.Name = "greeting-abcde" },
		"Owner":   func(s *discoveryv1.EndpointSlice) { s.OwnerReferences[0].UID = "2" },
		"NoOwner": func(s *discoveryv1.EndpointSlice) { s.OwnerReferences = nil },
		"TwoOwners": func(s *discoveryv1.EndpointSlice) {
			s.OwnerReferences = append(s.OwnerReferences, s.OwnerReferences[0])
		},
		"Kind":   func(s *discoveryv1.EndpointSlice) { s.OwnerReferences[0].Kind = "Pod" },
		"Family": func(s *discoveryv1.EndpointSlice) { s.AddressType = discoveryv1.AddressTypeIPv6 },
	} {
		s := Slice(hello, corev1.IPv4Protocol, 12345, nil)
		if change(s); BelongsTo(s, hello) {
			t.Errorf("%s: belongs to the function", name)
		}
	}
	for port, want := range map[int32]int32{1: 0, FirstPort - 1: 0, FirstPort: FirstPort, LastPort: LastPort, LastPort + 1: 0} {
		if got := PortOf(Slice(hello, corev1.IPv4Protocol, port, nil)); got != want {
			t.Errorf("port %d: PortOf returns %d", port, got)
		}
	}
}

// An endpoint without a node has no node name, because the API server rejects an empty one.
func TestSliceWithoutNode(t *testing.T) {
	unscheduled := endpoints("10.0.0.1")
	unscheduled[0].Node = ""
	if s := Slice(backend.Backend{}, corev1.IPv4Protocol, 12345, unscheduled); s.Endpoints[0].NodeName != nil {
		t.Errorf("the node name is %q", *s.Endpoints[0].NodeName)
	}
}

// Equal detects every relevant difference.
func TestEqual(t *testing.T) {
	hello := backend.Backend{Service: types.NamespacedName{Namespace: "default", Name: "greeting"}, UID: "1"}
	other := hello
	other.UID = "2"
	addresses := endpoints("10.0.0.2", "10.0.0.1")
	noted, elsewhere := Slice(hello, corev1.IPv4Protocol, 12345, addresses), endpoints("10.0.0.2", "10.0.0.1")
	SetAnnotations(noted, noted, map[string]string{v1beta1.WakeFailedAnnotation: "why"})
	elsewhere[0].Node = "another"
	is := Slice(hello, corev1.IPv4Protocol, 12345, addresses)
	relabeled := is.DeepCopy()
	relabeled.Labels[discoveryv1.LabelServiceName] = "another"
	for name, test := range map[string]struct {
		shall *discoveryv1.EndpointSlice
		same  bool
	}{
		"Same":    {Slice(hello, corev1.IPv4Protocol, 12345, []Endpoint{addresses[1], addresses[0]}), true},
		"Port":    {Slice(hello, corev1.IPv4Protocol, 12346, addresses), false},
		"Address": {Slice(hello, corev1.IPv4Protocol, 12345, addresses[:1]), false},
		"Empty":   {Slice(hello, corev1.IPv4Protocol, 12345, nil), false},
		"Owner":   {Slice(other, corev1.IPv4Protocol, 12345, addresses), false},
		"Family":  {Slice(hello, corev1.IPv6Protocol, 12345, addresses), false},
		"Label":   {relabeled, false},
		"Node":    {Slice(hello, corev1.IPv4Protocol, 12345, elsewhere), false},
		"Note":    {noted, false},
	} {
		if got := Equal(is, test.shall); got != test.same {
			t.Errorf("%s: Equal is %t", name, got)
		}
	}
}
