package rule

import (
	"maps"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/activator/target"
)

// Manager is the value of the label endpointslice.kubernetes.io/managed-by of the slices of activators.
const Manager = "goless-activator"

// An Endpoint is an address of a replica of the activator.
type Endpoint struct {
	Address netip.Addr
	// Node and Pod are where the replica runs, and what it is. Load balancers that send requests to
	// pods, and not to nodes, ignore endpoints without them.
	Node string
	Pod  types.NamespacedName
	UID  types.UID // of the pod
}

// Slice returns the EndpointSlice of a function for one address family of its Service. It has those of
// the endpoints that are of the family. One without endpoints sends no requests to activators, and
// keeps the port for the function.
func Slice(t target.Target, family corev1.IPFamily, port int32, endpoints []Endpoint) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: t.Service.Namespace,
			Labels: map[string]string{
				discoveryv1.LabelServiceName: t.Service.Name,
				discoveryv1.LabelManagedBy:   Manager,
				v1beta1.FunctionLabel:        t.Function.Name,
			},
			OwnerReferences: []metav1.OwnerReference{ownerOf(t)},
		},
		Ports:     []discoveryv1.EndpointPort{{Name: new(target.Port), Port: new(port), Protocol: new(corev1.ProtocolTCP), AppProtocol: t.AppProtocol}},
		Endpoints: []discoveryv1.Endpoint{},
	}
	s.Name, s.AddressType = identity(t, family)
	byAddress := func(a, b Endpoint) int { return a.Address.Compare(b.Address) }
	for _, e := range slices.SortedFunc(slices.Values(endpoints), byAddress) {
		if e.Address.Is6() == (family == corev1.IPv6Protocol) {
			s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{
				Addresses: []string{e.Address.String()},
				// Some gateways pass over endpoints whose readiness is left out.
				Conditions: discoveryv1.EndpointConditions{Ready: new(true), Serving: new(true), Terminating: new(false)},
				NodeName:   new(e.Node),
				TargetRef:  &corev1.ObjectReference{Kind: "Pod", Namespace: e.Pod.Namespace, Name: e.Pod.Name, UID: e.UID},
			})
		}
	}
	return s
}

// identity returns the name and the address type of the slice for one address family.
func identity(t target.Target, family corev1.IPFamily) (string, discoveryv1.AddressType) {
	if family == corev1.IPv6Protocol {
		return t.Service.Name + "-activator-ipv6", discoveryv1.AddressTypeIPv6
	}
	return t.Service.Name + "-activator", discoveryv1.AddressTypeIPv4
}

func ownerOf(t target.Target) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: "v1", Kind: "Service", Name: t.Service.Name, UID: t.UID}
}

// notes are the annotations that the operator reads.
var notes = []string{v1beta1.WakeFailedAnnotation, v1beta1.StaysAwakeAnnotation}

// Note gives a slice the annotations of the current one. Those that the operator reads have the given
// values, and are left out where those are empty.
func Note(desired, current *discoveryv1.EndpointSlice, values map[string]string) {
	desired.Annotations = maps.Clone(current.Annotations)
	for _, name := range notes {
		delete(desired.Annotations, name)
		if values[name] != "" {
			metav1.SetMetaDataAnnotation(&desired.ObjectMeta, name, values[name])
		}
	}
}

// Same reports whether a slice says what the desired one says. It may have more labels, and other
// annotations than those that the operator reads.
func Same(current, desired *discoveryv1.EndpointSlice) bool {
	for _, name := range notes {
		if current.Annotations[name] != desired.Annotations[name] {
			return false
		}
	}
	for name, value := range desired.Labels {
		if current.Labels[name] != value {
			return false
		}
	}
	return current.AddressType == desired.AddressType && equality.Semantic.DeepEqual(current.OwnerReferences, desired.OwnerReferences) &&
		equality.Semantic.DeepEqual(current.Ports, desired.Ports) && equality.Semantic.DeepEqual(current.Endpoints, desired.Endpoints)
}

// PortOf returns the port of a slice, and 0 if it has none of those that activators listen on.
func PortOf(s *discoveryv1.EndpointSlice) int32 {
	if len(s.Ports) != 1 || s.Ports[0].Port == nil || *s.Ports[0].Port < FirstPort || *s.Ports[0].Port > LastPort {
		return 0
	}
	return *s.Ports[0].Port
}

// BelongsTo reports whether a slice is that of a function for one of the address families, and not one that
// another client has written with the labels of the activator, or that of a Service which was deleted.
func BelongsTo(s *discoveryv1.EndpointSlice, t target.Target) bool {
	if len(s.OwnerReferences) != 1 || !equality.Semantic.DeepEqual(s.OwnerReferences[0], ownerOf(t)) {
		return false
	}
	for _, family := range []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol} {
		if name, kind := identity(t, family); s.Name == name && s.AddressType == kind {
			return true
		}
	}
	return false
}

// Addresses returns the addresses that a slice has.
func Addresses(s *discoveryv1.EndpointSlice) []netip.Addr {
	var addresses []netip.Addr
	for _, e := range s.Endpoints {
		for _, text := range e.Addresses {
			if a, err := netip.ParseAddr(text); err == nil {
				addresses = append(addresses, a)
			}
		}
	}
	return addresses
}
