package desired

import (
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	networkingv1ac "k8s.io/client-go/applyconfigurations/networking/v1"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/settings"
)

// MetricsLabel is set to enabled on namespaces whose pods may read the metrics of functions that
// have a NetworkPolicy.
const MetricsLabel = "goless.io/metrics"

// NetworkPolicy returns a policy that allows only what the function needs:
//   - ingress: requests, scrapes from namespaces with MetricsLabel, and the activator, which
//     queries the requests of a function that may sleep, scales by its requests in flight or
//     verifies rollouts
//   - egress: the DNS of the cluster, the build service, and the destinations in the settings
func NetworkPolicy(fn *v1beta1.Function, s settings.Settings) *networkingv1ac.NetworkPolicyApplyConfiguration {
	scraping := networkingv1ac.NetworkPolicyPeer().WithNamespaceSelector(metav1ac.LabelSelector().WithMatchLabels(map[string]string{MetricsLabel: "enabled"}))
	spec := networkingv1ac.NetworkPolicySpec().
		WithPodSelector(metav1ac.LabelSelector().WithMatchLabels(Selector(fn.Name))).
		WithPolicyTypes(networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress).
		WithIngress(
			networkingv1ac.NetworkPolicyIngressRule().WithPorts(tcp(intstr.FromString(portHTTP))),
			networkingv1ac.NetworkPolicyIngressRule().WithPorts(tcp(intstr.FromString(portMetrics))).WithFrom(scraping),
		).
		WithEgress(toDNS(), toBuildService())
	if fn.MaySleep() || fn.ScalesOnRequests() || fn.Verifies() {
		spec.Ingress[1].WithFrom(named("goless-activator"))
	}
	spec.Egress = append(spec.Egress, s.NetworkPolicyEgress...)
	return networkingv1ac.NetworkPolicy(fn.Name, fn.Namespace).
		WithLabels(labels(fn)).
		WithOwnerReferences(owner(fn)).
		WithSpec(spec)
}

// toDNS allows DNS queries to pods of the cluster and to the node-local resolver of many clusters.
// Policies apply to the port of the pod, which is 5353 in OpenShift.
func toDNS() *networkingv1ac.NetworkPolicyEgressRuleApplyConfiguration {
	rule := networkingv1ac.NetworkPolicyEgressRule().WithTo(
		networkingv1ac.NetworkPolicyPeer().WithNamespaceSelector(metav1ac.LabelSelector()),
		networkingv1ac.NetworkPolicyPeer().WithIPBlock(networkingv1ac.IPBlock().WithCIDR("169.254.20.10/32")),
	)
	for _, port := range []int32{53, 5353} {
		rule.WithPorts(tcp(intstr.FromInt32(port)), tcp(intstr.FromInt32(port)).WithProtocol("UDP"))
	}
	return rule
}

// toBuildService allows the launcher to fetch the binary.
func toBuildService() *networkingv1ac.NetworkPolicyEgressRuleApplyConfiguration {
	return networkingv1ac.NetworkPolicyEgressRule().
		WithPorts(tcp(intstr.FromInt32(8443))).
		WithTo(named("goless-build"))
}

// named selects the pods of a component of Goless. It does not check the namespace: pods with this
// label are selected in all namespaces.
func named(part string) *networkingv1ac.NetworkPolicyPeerApplyConfiguration {
	return networkingv1ac.NetworkPolicyPeer().
		WithNamespaceSelector(metav1ac.LabelSelector()).
		WithPodSelector(metav1ac.LabelSelector().WithMatchLabels(map[string]string{"app.kubernetes.io/name": part}))
}

func tcp(port intstr.IntOrString) *networkingv1ac.NetworkPolicyPortApplyConfiguration {
	return networkingv1ac.NetworkPolicyPort().WithProtocol("TCP").WithPort(port)
}
