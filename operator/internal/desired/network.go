package desired

import (
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	networkingv1ac "k8s.io/client-go/applyconfigurations/networking/v1"

	"goless.io/operator/api/v1beta1"
)

// These are the addresses at which clouds hand out credentials to who asks from a
// machine: of most of them, of containers of AWS, of Tencent, Azure and Alibaba; of AWS,
// its containers, and Google. All of 169.254.0.0/16 would take along the resolver that
// many clusters have on each node.
var (
	metadata4 = []string{"169.254.169.254/32", "169.254.170.0/24", "169.254.0.23/32", "168.63.129.16/32", "100.100.100.200/32"}
	metadata6 = []string{"fd00:ec2::254/128", "fd00:ec2::23/128", "fd20:ce::254/128"}
)

// NetworkPolicy lets requests and scrapes in, by the ports that are for them, and
// out whatever is not addressed to the machine below.
func NetworkPolicy(fn *v1beta1.Function) *networkingv1ac.NetworkPolicyApplyConfiguration {
	ingress := networkingv1ac.NetworkPolicyIngressRule()
	for _, port := range []string{portHTTP, portMetrics} {
		ingress.WithPorts(networkingv1ac.NetworkPolicyPort().WithProtocol("TCP").WithPort(intstr.FromString(port)))
	}
	egress := networkingv1ac.NetworkPolicyEgressRule().WithTo(
		block("0.0.0.0/0", metadata4...),
		block("::/0", metadata6...),
		// To some engines blocks of addresses are no pods, DNS included.
		networkingv1ac.NetworkPolicyPeer().WithNamespaceSelector(metav1ac.LabelSelector()),
	)
	return networkingv1ac.NetworkPolicy(fn.Name, fn.Namespace).
		WithLabels(labels(fn)).
		WithOwnerReferences(owner(fn)).
		WithSpec(networkingv1ac.NetworkPolicySpec().
			WithPodSelector(metav1ac.LabelSelector().WithMatchLabels(Selector(fn.Name))).
			WithPolicyTypes(networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress).
			WithIngress(ingress).
			WithEgress(egress))
}

func block(all string, except ...string) *networkingv1ac.NetworkPolicyPeerApplyConfiguration {
	return networkingv1ac.NetworkPolicyPeer().WithIPBlock(networkingv1ac.IPBlock().WithCIDR(all).WithExcept(except...))
}
