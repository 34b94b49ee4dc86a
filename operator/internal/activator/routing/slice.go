package routing

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
	"goless.io/operator/internal/activator/backend"
)

// Manager is the value of the label endpointslice.kubernetes.io/managed-by in the EndpointSlices
// of the activator.
const Manager = "goless-activator"

// An Endpoint is an address of an activator replica.
type Endpoint struct {
	Address netip.Addr
	// Node and Pod identify the replica. Load balancers that send requests directly to pods ignore
	// endpoints without them.
	Node string
	Pod  types.NamespacedName
	UID  types.UID // of the pod
}

// Slice returns the EndpointSlice of a function for one address family of its Service. It contains
// the endpoints of that family. A slice without endpoints routes no requests to the activators but
// still reserves the port.
func Slice(b backend.Backend, family corev1.IPFamily, port int32, endpoints []Endpoint) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: b.Service.Namespace,
			Labels: map[string]string{
				discoveryv1.LabelServiceName: b.Service.Name,
				discoveryv1.LabelManagedBy:   Manager,
				v1beta1.FunctionLabel:        b.Function.Name,
			},
			OwnerReferences: []metav1.OwnerReference{ownerOf(b)},
		},
		Ports:     []discoveryv1.EndpointPort{{Name: new(backend.PortName), Port: new(port), Protocol: new(corev1.ProtocolTCP), AppProtocol: b.AppProtocol}},
		Endpoints: []discoveryv1.Endpoint{},
	}
	s.Name, s.AddressType = identity(b, family)
	byAddress := func(a, b Endpoint) int { return a.Address.Compare(b.Address) }
	for _, e := range slices.SortedFunc(slices.Values(endpoints), byAddress) {
		if e.Address.Is6() == (family == corev1.IPv6Protocol) {
			endpoint := discoveryv1.Endpoint{
				Addresses: []string{e.Address.String()},
				// Some gateways skip endpoints without a ready condition.
				Conditions: discoveryv1.EndpointConditions{Ready: new(true), Serving: new(true), Terminating: new(false)},
				TargetRef:  &corev1.ObjectReference{Kind: "Pod", Namespace: e.Pod.Namespace, Name: e.Pod.Name, UID: e.UID},
			}
			if e.Node != "" { // the API server rejects an empty name
				endpoint.NodeName = new(e.Node)
			}
			s.Endpoints = append(s.Endpoints, endpoint)
		}
	}
	return s
}

// identity returns the name and the address type of the EndpointSlice for an address family.
func identity(b backend.Backend, family corev1.IPFamily) (string, discoveryv1.AddressType) {
	if family == corev1.IPv6Protocol {
		return b.Service.Name + "-activator-ipv6", discoveryv1.AddressTypeIPv6
	}
	return b.Service.Name + "-activator", discoveryv1.AddressTypeIPv4
}

func ownerOf(b backend.Backend) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: "v1", Kind: "Service", Name: b.Service.Name, UID: b.UID}
}

// managedAnnotations are the annotations that the operator reads.
var managedAnnotations = []string{v1beta1.WakeFailedAnnotation, v1beta1.StaysAwakeAnnotation, v1beta1.CannotScaleAnnotation, v1beta1.VerifyReportAnnotation}

// SetAnnotations copies the annotations of current to desired, except for those that the operator
// reads: they are set to the given values, and removed if the value is empty.
func SetAnnotations(desired, current *discoveryv1.EndpointSlice, values map[string]string) {
	desired.Annotations = maps.Clone(current.Annotations)
	for _, name := range managedAnnotations {
		delete(desired.Annotations, name)
		if values[name] != "" {
			metav1.SetMetaDataAnnotation(&desired.ObjectMeta, name, values[name])
		}
	}
}

// Equal reports whether current needs no update to match desired. Additional labels, and
// annotations that the operator does not read, are ignored.
func Equal(current, desired *discoveryv1.EndpointSlice) bool {
	for _, name := range managedAnnotations {
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

// PortOf returns the port of an EndpointSlice, or 0 if it is not a single port between FirstPort
// and LastPort.
func PortOf(s *discoveryv1.EndpointSlice) int32 {
	if len(s.Ports) != 1 || s.Ports[0].Port == nil || *s.Ports[0].Port < FirstPort || *s.Ports[0].Port > LastPort {
		return 0
	}
	return *s.Ports[0].Port
}

// BelongsTo reports whether the activator created an EndpointSlice for this function. It is false
// for a slice of a deleted Service, and for one that another client created with the labels of the
// activator.
func BelongsTo(s *discoveryv1.EndpointSlice, b backend.Backend) bool {
	if len(s.OwnerReferences) != 1 || !equality.Semantic.DeepEqual(s.OwnerReferences[0], ownerOf(b)) {
		return false
	}
	for _, family := range []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol} {
		if name, kind := identity(b, family); s.Name == name && s.AddressType == kind {
			return true
		}
	}
	return false
}

// Addresses returns the addresses of all endpoints of an EndpointSlice.
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
