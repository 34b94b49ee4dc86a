package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
	"goless.io/test/docs/markdown"
)

// openToAll is a policy of a namespace that allows everything.
const openToAll = `
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: open}
spec: {podSelector: {}, ingress: [{}], egress: [{}], policyTypes: [Ingress, Egress]}
`

// deniedByDefault are the policies of a namespace that denies by default. They allow DNS, whose
// server in the test cluster is not a pod, and the connections that docs/how-to/network.md lists
// for the pods of triggers.
const deniedByDefault = `
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: deny}
spec: {podSelector: {}, policyTypes: [Ingress, Egress]}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: dns}
spec:
  podSelector: {}
  policyTypes: [Egress]
  egress: [{to: [{ipBlock: {cidr: %[1]s/32}}], ports: [{protocol: UDP, port: 53}, {protocol: TCP, port: 53}]}]
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: triggers}
spec:
  podSelector: {matchExpressions: [{key: goless.io/trigger, operator: Exists}]}
  policyTypes: [Egress]
  egress:
    - to: [{podSelector: {matchExpressions: [{key: goless.io/function, operator: Exists}]}}]
      ports: [{protocol: TCP, port: http}]
    - to: [{namespaceSelector: {}, podSelector: {matchLabels: {app.kubernetes.io/name: goless-activator}}}]
`

// With enforced NetworkPolicies, the components of Goless work, and functions start, sleep and wake,
// with the policy that Goless creates, and with those of docs/how-to/network.md in a namespace
// that denies by default. Other pods do not reach admin ports and the build service.
func TestNeighbourKubeRouter(t *testing.T) {
	node := nodeAddress(t)
	// In the test cluster, the API server has an uncommon port, and the DNS server is not a pod.
	components := []string{operatorName, buildName, activatorName, "goless-triggers"}
	for _, name := range components {
		allowEgress(t, name, node)
	}
	enforcePolicies(t)
	applyTo(t, caller.namespace, openToAll)
	changeSettings(t, fmt.Sprintf(`
networkPolicy: true
networkPolicyEgress:
  - to: [{ipBlock: {cidr: %s/32}}]
    ports: [{protocol: UDP, port: 53}, {protocol: TCP, port: 53}]
  - to: [{namespaceSelector: {}, podSelector: {matchLabels: {app: modules}}}]
`, node))
	outside := newOutsider(t, nil)
	monitoring := newOutsider(t, map[string]string{"goless.io/metrics": "enabled"})

	t.Run("System", func(t *testing.T) {
		for _, name := range components {
			address := systemAddress(t, name, "metrics")
			outside.reaches(t, address, false)
			monitoring.reaches(t, address, true)
		}
		for _, o := range []outsider{outside, monitoring} {
			o.reaches(t, systemAddress(t, buildName, "https"), false)
		}
		seen(t, "Apart from pods of Goless and of functions, only pods in namespaces with the label `goless.io/metrics` reach the admin ports, and none reaches the build service.")
	})
	t.Run("Policy", func(t *testing.T) {
		t.Parallel()
		ns := newNamespace(t)
		fn := ns.sleepsAndWakes(shared("shared", answering("one"), sleeping))
		ns.sleepsAndWakes(inPod("in-pod", archive(t, filepath.Join("testdata", "dependencies")), sleeping))
		get(ns, fn.Name, &networkingv1.NetworkPolicy{})
		ns.admits(fn, outside, monitoring)
		stop := ns.load(fn)
		fn = ns.ready(ns.change(fn, source(answering("two"))))
		ns.answers(fn, "two")
		stop()
		seen(t, "With `networkPolicy: true`, functions start, sleep, wake and are updated.")
	})
	t.Run("DenyByDefault", func(t *testing.T) {
		t.Parallel()
		ns := newNamespace(t)
		ns.applyYAML(fmt.Sprintf(deniedByDefault, node))
		ns.applyYAML(documentedPolicy(t))
		fn := ns.sleepsAndWakes(shared("called", answering("one"), sleeping))
		err := ns.client.Get(t.Context(), client.ObjectKeyFromObject(fn), &networkingv1.NetworkPolicy{})
		if !apierrors.IsNotFound(err) {
			t.Errorf("Goless has created a policy for a function that another policy selects: %v", err)
		}
		ns.admits(fn, outside, monitoring)
		ns.applyYAML(minutely)
		ns.kubectl("wait", "crontrigger/minutely", "--for=condition=Delivered", "--timeout=180s")
		seen(t, "In a namespace that denies by default, functions start, sleep and wake with the documented policies. With a policy for the pods of triggers, a CronTrigger calls them.")
	})
}

// sleepsAndWakes creates a Function that sleeps, and calls it twice while it does.
func (ns *namespace) sleepsAndWakes(fn *v1beta1.Function) *v1beta1.Function {
	ns.t.Helper()
	fn = ns.ready(ns.apply(fn))
	for range 2 {
		fn = ns.asleep(fn)
		if r := ns.call(http.MethodGet, url(fn), ""); r.Status >= http.StatusInternalServerError {
			ns.t.Errorf("a request that wakes %s got %d %q", fn.Name, r.Status, r.Body)
		}
	}
	return fn
}

// admits checks that all pods reach a Function, and only those for monitoring its admin port.
func (ns *namespace) admits(fn *v1beta1.Function, outside, monitoring outsider) {
	ns.t.Helper()
	ns.answers(fn, "one") // it is awake
	pod := ns.pod(fn).Status.PodIP
	outside.reaches(ns.t, net.JoinHostPort(pod, "8080"), true)
	outside.reaches(ns.t, net.JoinHostPort(pod, "9090"), false)
	monitoring.reaches(ns.t, net.JoinHostPort(pod, "9090"), true) // last: the function is still awake
}

// documentedPolicy returns the policy of the page for namespaces that deny by default.
func documentedPolicy(t *testing.T) string {
	t.Helper()
	page, err := markdown.Read(repo, "docs/how-to/network.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range page.Blocks {
		if b.Language == "yaml" {
			return b.Text
		}
	}
	t.Fatal("the page has no policy")
	return ""
}

// nodeAddress returns the address of a node, at which the API server and the DNS server listen.
func nodeAddress(t *testing.T) string {
	t.Helper()
	var nodes corev1.NodeList
	if err := cluster.List(t.Context(), &nodes); err != nil {
		t.Fatal(err)
	}
	for _, address := range nodes.Items[0].Status.Addresses {
		if address.Type == corev1.NodeInternalIP {
			return address.Address
		}
	}
	t.Fatal("the node has no address")
	return ""
}

// enforcePolicies runs kube-router until the test ends. Its rules remain, so the cluster is not used
// for other tests.
func enforcePolicies(t *testing.T) {
	t.Helper()
	text, err := os.ReadFile("testdata/kube-router.yaml")
	if err != nil {
		t.Fatal(err)
	}
	manifest := strings.Replace(string(text), "IMAGE", neighbourImage(t, "IMAGE_KUBE_ROUTER"), 1)
	applyTo(t, "kube-system", manifest)
	kubectlOK(t, "-n", "kube-system", "rollout", "status", "daemonset/kube-router", "--timeout="+patience.String())
	if t.Failed() {
		out, _ := kubectl(t.Context(), "-n", "kube-system", "logs", "daemonset/kube-router", "--tail=100")
		t.Fatal(out)
	}
}

// applyTo applies objects to a namespace until the test ends.
func applyTo(t *testing.T, namespace, text string) {
	t.Helper()
	t.Cleanup(func() { kubectlStdin(t, text, "-n", namespace, "delete", "--ignore-not-found", "-f", "-") })
	kubectlStdin(t, text, "-n", namespace, "apply", "-f", "-")
}

// allowEgress adds a rule for an address to a policy of Goless until the test ends, as
// docs/how-to/network.md describes.
func allowEgress(t *testing.T, name, address string) {
	t.Helper()
	key := client.ObjectKey{Namespace: systemNamespace, Name: name}
	change := func(ctx context.Context, egress func([]networkingv1.NetworkPolicyEgressRule) []networkingv1.NetworkPolicyEgressRule) {
		var policy networkingv1.NetworkPolicy
		err := cluster.Get(ctx, key, &policy)
		if err == nil {
			policy.Spec.Egress = egress(policy.Spec.Egress)
			err = cluster.Update(ctx, &policy)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	rule := networkingv1.NetworkPolicyEgressRule{To: []networkingv1.NetworkPolicyPeer{{IPBlock: &networkingv1.IPBlock{CIDR: address + "/32"}}}}
	change(t.Context(), func(rules []networkingv1.NetworkPolicyEgressRule) []networkingv1.NetworkPolicyEgressRule {
		return append(rules, rule)
	})
	t.Cleanup(func() {
		change(context.Background(), func(rules []networkingv1.NetworkPolicyEgressRule) []networkingv1.NetworkPolicyEgressRule {
			return rules[:len(rules)-1]
		})
	})
}

// changeSettings adds settings to those of the operator until the test ends.
func changeSettings(t *testing.T, more string) {
	t.Helper()
	var settings corev1.ConfigMap
	if err := cluster.Get(t.Context(), client.ObjectKey{Namespace: systemNamespace, Name: operatorName}, &settings); err != nil {
		t.Fatal(err)
	}
	before := settings.Data["config.yaml"]
	t.Cleanup(func() {
		if err := configure(context.Background(), before); err != nil {
			t.Error(err)
		}
	})
	if err := configure(t.Context(), before+more); err != nil {
		t.Fatal(err)
	}
}

// systemAddress returns the address of a named port of a component of Goless.
func systemAddress(t *testing.T, name, port string) string {
	t.Helper()
	pods, err := systemPods(t.Context(), name)
	if err != nil || len(pods) == 0 {
		t.Fatalf("%d pods of %s: %v", len(pods), name, err)
	}
	ports := pods[0].Spec.Containers[0].Ports
	i := slices.IndexFunc(ports, func(p corev1.ContainerPort) bool { return p.Name == port })
	if i < 0 {
		t.Fatalf("%s has no port %s", name, port)
	}
	return net.JoinHostPort(pods[0].Status.PodIP, strconv.Itoa(int(ports[i].ContainerPort)))
}

// An outsider is a pod that is not part of Goless.
type outsider struct{ namespace string }

// newOutsider runs a pod in a new namespace with labels.
func newOutsider(t *testing.T, labels map[string]string) outsider {
	t.Helper()
	ns := newNamespace(t, func(object *corev1.Namespace) {
		object.Labels = map[string]string{"pod-security.kubernetes.io/enforce": "privileged"}
		maps.Copy(object.Labels, labels)
	})
	text, err := os.ReadFile("testdata/outsider.yaml")
	if err != nil {
		t.Fatal(err)
	}
	ns.applyYAML(strings.Replace(string(text), "IMAGE", neighbourImage(t, "IMAGE_KUBE_ROUTER"), 1))
	ns.kubectl("wait", "pod/outsider", "--for=condition=Ready", "--timeout="+patience.String())
	return outsider{ns.name}
}

// reaches waits until the outsider can open a connection to an address, or has failed to three times
// in a row.
func (o outsider) reaches(t *testing.T, address string, want bool) {
	t.Helper()
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	expected := map[bool]string{true: "open", false: "closed"}[want]
	once := fmt.Sprintf("if timeout 3 bash -c '</dev/tcp/%s/%s' 2>/dev/null; then echo open; exit; fi", host, port)
	script := once + "; " + once + "; " + once + "; echo closed"
	(&namespace{t: t}).eventually(fmt.Sprintf("%s is %s for a pod in %s", address, expected, o.namespace), func() error {
		out, err := kubectl(t.Context(), "-n", o.namespace, "exec", "outsider", "--", "/usr/bin/bash", "-c", script)
		if err == nil && strings.TrimSpace(out) != expected {
			err = errors.New(strings.TrimSpace(out))
		}
		return err
	})
}
