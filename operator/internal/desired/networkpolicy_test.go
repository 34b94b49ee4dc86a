package desired_test

import (
	"bytes"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	networkingv1ac "k8s.io/client-go/applyconfigurations/networking/v1"
	"sigs.k8s.io/yaml"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/desired"
	"goless.io/operator/internal/settings"
)

// The test clusters do not enforce NetworkPolicies. These tests evaluate the policies as documented
// by Kubernetes, with both interpretations of IP blocks: they select pods (most engines) or they do
// not (Cilium).

// endpoint is one end of a connection: a pod, or an address if namespace is nil.
type endpoint struct {
	namespace, pod labels.Set
	address        string
}

// port is the destination port of a connection, with its name in the pod.
type port struct {
	protocol corev1.Protocol
	number   int32
	name     string
}

// selects reports whether a policy selects a pod in its namespace.
func selects(t *testing.T, policy *networkingv1.NetworkPolicy, pod endpoint) bool {
	t.Helper()
	return policy.Namespace == pod.namespace[corev1.LabelMetadataName] && matches(t, &policy.Spec.PodSelector, pod.pod)
}

func matches(t *testing.T, selector *metav1.LabelSelector, of labels.Set) bool {
	t.Helper()
	s, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		t.Fatal(err)
	}
	return s.Matches(of)
}

// peerMatches reports whether a peer of a policy matches the other end of a connection.
func peerMatches(t *testing.T, policy *networkingv1.NetworkPolicy, peer networkingv1.NetworkPolicyPeer, other endpoint, blocksSelectPods bool) bool {
	t.Helper()
	if block := peer.IPBlock; block != nil {
		in := func(cidr string) bool {
			return netip.MustParsePrefix(cidr).Contains(netip.MustParseAddr(other.address))
		}
		return (other.namespace == nil || blocksSelectPods) && in(block.CIDR) && !slices.ContainsFunc(block.Except, in)
	}
	if other.namespace == nil {
		return false
	}
	inNamespace := policy.Namespace == other.namespace[corev1.LabelMetadataName]
	if peer.NamespaceSelector != nil {
		inNamespace = matches(t, peer.NamespaceSelector, other.namespace)
	}
	return inNamespace && (peer.PodSelector == nil || matches(t, peer.PodSelector, other.pod))
}

func portMatches(ports []networkingv1.NetworkPolicyPort, to port) bool {
	return len(ports) == 0 || slices.ContainsFunc(ports, func(p networkingv1.NetworkPolicyPort) bool {
		return *p.Protocol == to.protocol && (p.Port == nil || *p.Port == intstr.FromInt32(to.number) || *p.Port == intstr.FromString(to.name))
	})
}

// allows reports whether policies allow a connection from the pod from (egress), or to the pod to
// (ingress).
func allows(t *testing.T, policies []*networkingv1.NetworkPolicy, direction networkingv1.PolicyType, from, to endpoint, at port, blocksSelectPods bool) bool {
	t.Helper()
	pod, other := from, to
	if direction == networkingv1.PolicyTypeIngress {
		pod, other = to, from
	}
	isolated := false
	for _, policy := range policies {
		if !selects(t, policy, pod) || !slices.Contains(policy.Spec.PolicyTypes, direction) {
			continue
		}
		isolated = true
		for _, r := range rulesOf(policy, direction) {
			if portMatches(r.ports, at) && (len(r.peers) == 0 || slices.ContainsFunc(r.peers, func(p networkingv1.NetworkPolicyPeer) bool {
				return peerMatches(t, policy, p, other, blocksSelectPods)
			})) {
				return true
			}
		}
	}
	return !isolated
}

// rule is an ingress or egress rule.
type rule struct {
	peers []networkingv1.NetworkPolicyPeer
	ports []networkingv1.NetworkPolicyPort
}

// rulesOf returns the rules of a policy for one direction.
func rulesOf(policy *networkingv1.NetworkPolicy, direction networkingv1.PolicyType) (rules []rule) {
	if direction == networkingv1.PolicyTypeIngress {
		for _, r := range policy.Spec.Ingress {
			rules = append(rules, rule{r.From, r.Ports})
		}
		return rules
	}
	for _, r := range policy.Spec.Egress {
		rules = append(rules, rule{r.To, r.Ports})
	}
	return rules
}

// pod returns a pod in a namespace; more are additional labels of the namespace.
func pod(namespace string, of labels.Set, more ...string) endpoint {
	l := labels.Set{corev1.LabelMetadataName: namespace}
	for _, name := range more {
		l[name] = "enabled"
	}
	return endpoint{namespace: l, pod: of, address: "10.244.0.7"}
}

// deployed returns the NetworkPolicies in deploy/.
func deployed(t *testing.T) (policies []*networkingv1.NetworkPolicy) {
	t.Helper()
	for _, name := range []string{"30-operator.yaml", "50-build.yaml"} {
		text, err := os.ReadFile(filepath.Join("..", "..", "..", "deploy", name))
		if err != nil {
			t.Fatal(err)
		}
		for part := range bytes.SplitSeq(text, []byte("\n---\n")) {
			policy := &networkingv1.NetworkPolicy{}
			if err := yaml.Unmarshal(part, policy); err != nil {
				t.Fatal(err)
			}
			if policy.Kind == "NetworkPolicy" {
				policies = append(policies, policy)
			}
		}
	}
	if len(policies) != 2 {
		t.Fatalf("deploy/ has %d NetworkPolicies, want 2", len(policies))
	}
	return policies
}

// ofFunction returns the NetworkPolicy of a function, optionally with spec.scaling.
func ofFunction(t *testing.T, s settings.Settings, scaling ...*v1beta1.Scaling) *networkingv1.NetworkPolicy {
	t.Helper()
	fn := &v1beta1.Function{ObjectMeta: metav1.ObjectMeta{Name: "f", Namespace: "team"}}
	for _, s := range scaling {
		fn.Spec.Scaling = s
	}
	return typed(t, desired.NetworkPolicy(fn, s))
}

// typed converts an apply configuration.
func typed(t *testing.T, configuration *networkingv1ac.NetworkPolicyApplyConfiguration) *networkingv1.NetworkPolicy {
	t.Helper()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(configuration)
	if err != nil {
		t.Fatal(err)
	}
	policy := &networkingv1.NetworkPolicy{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, policy); err != nil {
		t.Fatal(err)
	}
	return policy
}

var (
	served     = pod("team", desired.Selector("f"))
	underTest  = pod("team", desired.TestJob(function(tested), settings.Settings{}, binary).Spec.Template.Labels)
	activator  = pod("goless-system", labels.Set{"app.kubernetes.io/name": "goless-activator"})
	operator   = pod("goless-system", labels.Set{"app.kubernetes.io/name": "goless-operator"})
	builder    = pod("goless-system", labels.Set{"app.kubernetes.io/name": "goless-build"})
	coreDNS    = pod("kube-system", labels.Set{"k8s-app": "kube-dns"})
	neighbour  = pod("team", labels.Set{"app": "shop"})
	stranger   = pod("other", labels.Set{"app": "thief"})
	prometheus = pod("monitoring", labels.Set{"app": "prometheus"}, desired.MetricsLabel)
	internet   = endpoint{address: "203.0.113.9"}
	apiServer  = endpoint{address: "172.16.0.1"}
	nodeDNS    = endpoint{address: "169.254.20.10"}
	metadata   = endpoint{address: "169.254.169.254"}

	atHTTP    = port{corev1.ProtocolTCP, 8080, "http"}
	atMetrics = port{corev1.ProtocolTCP, 9090, "metrics"}
	atHTTPS   = port{corev1.ProtocolTCP, 8443, "https"}
	atDNS     = port{corev1.ProtocolUDP, 53, "dns"}
	atWebhook = port{corev1.ProtocolTCP, 9443, "webhook"}
	atAPI     = port{corev1.ProtocolTCP, 6443, ""}
	atWeb     = port{corev1.ProtocolTCP, 443, ""}
	atPlain   = port{corev1.ProtocolTCP, 80, ""}
)

func TestNetworkPolicies(t *testing.T) {
	asked := settings.Settings{NetworkPolicyEgress: []networkingv1ac.NetworkPolicyEgressRuleApplyConfiguration{
		*networkingv1ac.NetworkPolicyEgressRule().WithTo(networkingv1ac.NetworkPolicyPeer().WithIPBlock(networkingv1ac.IPBlock().WithCIDR("203.0.113.0/24"))),
	}}
	usual := append(deployed(t), ofFunction(t, settings.Settings{}))
	open := append(deployed(t), ofFunction(t, asked))
	sleeps := append(deployed(t), ofFunction(t, settings.Settings{}, &v1beta1.Scaling{Min: new(int32(0))}))
	scales := append(deployed(t), ofFunction(t, settings.Settings{}, &v1beta1.Scaling{Max: new(int32(3)), Requests: new(int32(10))}))
	tested := function(tested)
	tested.Namespace = "team"
	tests := append(usual, typed(t, desired.TestPolicy(tested, settings.Settings{})))
	for name, test := range map[string]struct {
		policies []*networkingv1.NetworkPolicy
		from, to endpoint
		at       port
		want     bool
	}{
		"Request":             {usual, neighbour, served, atHTTP, true},
		"RequestOfStranger":   {usual, stranger, served, atHTTP, true},
		"Scrape":              {usual, prometheus, served, atMetrics, true},
		"ScrapeOfNeighbour":   {usual, neighbour, served, atMetrics, false},
		"ScrapeOfStranger":    {usual, stranger, served, atMetrics, false},
		"ActivityForSleep":    {sleeps, activator, served, atMetrics, true},
		"ActivityForScaling":  {scales, activator, served, atMetrics, true},
		"ActivityForNothing":  {usual, activator, served, atMetrics, false},
		"AnotherPort":         {usual, neighbour, served, atAPI, false},
		"FunctionToDNS":       {usual, served, coreDNS, atDNS, true},
		"FunctionToNodeDNS":   {usual, served, nodeDNS, atDNS, true},
		"FunctionToBuilder":   {usual, served, builder, atHTTPS, true},
		"FunctionToNeighbour": {usual, served, neighbour, atHTTP, false},
		"FunctionToInternet":  {usual, served, internet, atWeb, false},
		"FunctionToMetadata":  {usual, served, metadata, atPlain, false},
		"TestsToBuilder":      {tests, underTest, builder, atHTTPS, true},
		"TestsToDNS":          {tests, underTest, coreDNS, atDNS, true},
		"TestsToInternet":     {tests, underTest, internet, atWeb, false},
		"TestsToFunction":     {tests, underTest, served, atHTTP, false},
		"RequestToTests":      {tests, neighbour, underTest, atHTTP, false},
		"TestsUnrestricted":   {deployed(t), underTest, builder, atHTTPS, true},
		"AskedFor":            {open, served, internet, atWeb, true},
		"NotAskedFor":         {open, served, metadata, atPlain, false},
		"OperatorToBuilder":   {usual, operator, builder, atHTTPS, true},
		"OperatorToDNS":       {usual, operator, coreDNS, atDNS, true},
		"OperatorToNodeDNS":   {usual, operator, nodeDNS, atDNS, true},
		"OperatorToAPI":       {usual, operator, apiServer, atAPI, true},
		"OperatorToMicroK8s":  {usual, operator, apiServer, port{corev1.ProtocolTCP, 16443, ""}, true},
		"OperatorToMetadata":  {usual, operator, metadata, atPlain, false},
		"OperatorToNeighbour": {usual, operator, neighbour, atHTTP, false},
		"Admission":           {usual, apiServer, operator, atWebhook, true},
		"ScrapeOfOperator":    {usual, prometheus, operator, atMetrics, true},
		"StrangerFloodsIt":    {usual, stranger, operator, atMetrics, false},
		"BuilderToDNS":        {usual, builder, coreDNS, atDNS, true},
		"BuilderToBuilder":    {usual, builder, builder, atHTTPS, true},
		"BuilderToProxy":      {usual, builder, internet, atWeb, true},
		"BuilderToMetadata":   {usual, builder, metadata, atPlain, false},
		"StrangerToBuilder":   {usual, stranger, builder, atHTTPS, false},
		"ScrapeOfBuilder":     {usual, prometheus, builder, atMetrics, true},
		"StrangerReadsIt":     {usual, stranger, builder, atMetrics, false},
	} {
		for _, blocksSelectPods := range []bool{true, false} {
			out := test.from.namespace == nil || allows(t, test.policies, networkingv1.PolicyTypeEgress, test.from, test.to, test.at, blocksSelectPods)
			in := test.to.namespace == nil || allows(t, test.policies, networkingv1.PolicyTypeIngress, test.from, test.to, test.at, blocksSelectPods)
			if got := out && in; got != test.want {
				t.Errorf("%s, IP blocks select pods %t: egress allowed %t, ingress allowed %t, want both %t", name, blocksSelectPods, out, in, test.want)
			}
		}
	}
}
