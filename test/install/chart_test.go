package install

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

const hello = `
apiVersion: goless.io/v1beta1
kind: Function
metadata: {name: hello, namespace: ` + apart + `}
spec:
  function: |
    package hello

    import (
        "fmt"
        "net/http"
    )

    func Handler(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "hello") }
`

// rules are what an administrator asks of a namespace: restricted pods, with a label.
func rules(namespace string) string {
	return strings.ReplaceAll(`
apiVersion: v1
kind: Namespace
metadata: {name: NAMESPACE, labels: {pod-security.kubernetes.io/enforce: restricted}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: NAMESPACE-labels}
spec:
  matchConstraints:
    resourceRules:
      - {apiGroups: [""], apiVersions: [v1], resources: [pods], operations: [CREATE]}
  validations:
    - {expression: "has(object.metadata.labels) && 'team' in object.metadata.labels", message: a pod names its team}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: NAMESPACE-labels}
spec:
  policyName: NAMESPACE-labels
  validationActions: [Deny]
  matchResources: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: NAMESPACE}}}
`, "NAMESPACE", namespace)
}

// TestLifeOfARelease installs, upgrades, goes back, uninstalls and installs again. The
// function serves all the time.
func TestLifeOfARelease(t *testing.T) {
	chart := os.Getenv("CHART")
	if chart == "" {
		t.Skip("CHART does not name a chart: make e2e-chart makes it, and runs this test on the real cluster")
	}
	r := &release{connect(t, os.Getenv("KUBECONFIG"), "functions-system")}
	t.Cleanup(r.remove)
	r.kubectl("", "create", "namespace", apart)
	r.kubectl("", "label", "namespace", apart, "pod-security.kubernetes.io/enforce=restricted")
	r.kubectl(rules(r.system), "apply", "-f", "-")

	install := []string{"install", "goless", chart, "--namespace", r.system, "--wait", "--timeout", patience.String(), "--set", "podLabels.team=platform"}
	r.helm(install...)
	r.helm("test", "goless", "--namespace", r.system)
	r.kubectl(hello, "apply", "-f", "-")
	r.ready("hello")
	r.await("hello", "hello")
	pods := r.pods("name", "hello")

	stop := r.ask("hello", "hello")
	r.helm("upgrade", "goless", chart, "--namespace", r.system, "--wait", "--timeout", patience.String(),
		"--set", "podLabels.team=platform", "--set", "operator.replicas=1", "--set", "config.referencePause=5s", "--set-json", `operator.pod={"priorityClassName":"system-cluster-critical"}`)
	if got := r.kubectl("", "-n", r.system, "get", "deployment", "goless-operator", "-o", "jsonpath={.spec.replicas} {.spec.template.spec.priorityClassName}"); got != "1 system-cluster-critical" {
		t.Errorf("the upgraded operator has %q", got)
	}
	r.helm("rollback", "goless", "1", "--namespace", r.system, "--wait", "--timeout", patience.String())
	if got := r.kubectl("", "-n", r.system, "get", "deployment", "goless-operator", "-o", "jsonpath={.spec.replicas}"); got != "2" {
		t.Errorf("the operator has %q replicas again, want 2", got)
	}
	r.helm("uninstall", "goless", "--namespace", r.system, "--wait")
	r.kubectl("", "-n", apart, "get", "function/hello")
	r.helm(install...)
	r.helm("test", "goless", "--namespace", r.system)
	stop()
	if now := r.pods("name", "hello"); now != pods {
		t.Errorf("the function has the pods %s, want that %s go on", now, pods)
	}

	r.kubectl(strings.Replace(hello, `w, "hello"`, `w, "changed"`, 1), "apply", "-f", "-")
	r.await("hello", "changed")
}

// A typing mistake in a value is refused.
func TestWrongValue(t *testing.T) {
	chart := os.Getenv("CHART")
	if chart == "" {
		t.Skip("CHART does not name a chart: make e2e-chart makes it, and runs this test")
	}
	out, err := exec.Command(os.Getenv("HELM"), "template", chart, "--set", "operator.replica=3").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "replica") {
		t.Errorf("a value that does not exist: %v, %s", err, out)
	}
}

// A release is Goless in another namespace than the one that deploy/ names, as Helm knows it.
type release struct{ *cluster }

func (r *release) helm(args ...string) {
	r.Helper()
	r.Logf("helm %s", strings.Join(args, " "))
	r.run("", os.Getenv("HELM"), args...)
}

// remove leaves the cluster as it was.
func (r *release) remove() {
	for _, args := range [][]string{
		{os.Getenv("HELM"), "uninstall", "goless", "--namespace", r.system, "--wait", "--ignore-not-found"},
		{"kubectl", "delete", "-f", "../../deploy/10-crd.yaml", "-f", "../../deploy/15-triggers-crd.yaml", "--ignore-not-found"},
		{"kubectl", "delete", "validatingadmissionpolicybinding/" + r.system + "-labels", "validatingadmissionpolicy/" + r.system + "-labels", "--ignore-not-found"},
		{"kubectl", "delete", "namespace", r.system, apart, "--ignore-not-found"},
	} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			r.Errorf("%s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}
