package install

import (
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
	"sigs.k8s.io/yaml"
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

// rules are the restrictions of a namespace: restricted pods with a label.
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

// class gives the pods of functions the required label.
const class = `
apiVersion: goless.io/v1beta1
kind: FunctionClass
metadata: {name: standard, annotations: {functionclass.goless.io/is-default-class: "true"}}
spec: {labels: {team: functions}}
`

// modules is a proxy of Go modules in its own namespace. For other hosts it is an HTTP proxy.
const modules = `
apiVersion: v1
kind: Namespace
metadata: {name: ` + apart + `-modules}
---
apiVersion: v1
kind: Pod
metadata: {name: modules, namespace: ` + apart + `-modules, labels: {app: modules}}
spec:
  containers:
    - name: modproxy
      image: IMAGE
      readinessProbe: {periodSeconds: 1, tcpSocket: {port: 8080}}
---
apiVersion: v1
kind: Service
metadata: {name: modules, namespace: ` + apart + `-modules}
spec:
  selector: {app: modules}
  ports: [{port: 8080}]
`

// values are for a cluster with restrictions and without internet access: the name of the
// module proxy cannot be resolved, so it is reachable only through the HTTP proxy.
const values = `
images: {mirror: MIRROR}
podLabels: {team: platform}
accessPolicy: {parameters: {fence.goless.io/labels: team}}
config:
  build:
    modules:
      goProxy: http://modules.example.com
      goSumDB: "off"
      httpProxy: http://modules.` + apart + `-modules.svc:8080
`

// TestLifeOfARelease installs, upgrades, rolls back, uninstalls and reinstalls Goless in a
// cluster with restrictions, from a mirror. The function serves all the time.
func TestLifeOfARelease(t *testing.T) {
	chart, image := os.Getenv("CHART"), os.Getenv("MODPROXY_IMAGE")
	if chart == "" || image == "" {
		t.Skip("CHART and MODPROXY_IMAGE are not set; make e2e-chart builds both, and runs this test on the real cluster")
	}
	r := &release{connect(t, os.Getenv("KUBECONFIG"), "functions-system")}
	t.Cleanup(r.remove)
	r.kubectl(rules(r.system), "apply", "-f", "-")
	r.kubectl(rules(apart), "apply", "-f", "-")
	r.kubectl(strings.ReplaceAll(modules, "IMAGE", image), "apply", "-f", "-")
	r.kubectl("", "-n", apart+"-modules", "wait", "--for=condition=Ready", "--timeout="+patience.String(), "pod/modules")
	mirror := r.mirror(chart)
	file := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(values, "MIRROR", mirror)), 0o600); err != nil {
		t.Fatal(err)
	}

	install := []string{"install", "goless", chart, "--namespace", r.system, "--wait", "--timeout", patience.String(), "--values", file}
	r.helm(install...)
	r.helm("test", "goless", "--namespace", r.system)
	r.kubectl(class, "apply", "-f", "-")
	r.kubectl(hello, "apply", "-f", "-")
	r.ready("hello")
	r.await("hello", "hello")
	r.requires()
	r.pulledFrom(mirror)
	r.tellVersion(chart)
	pods := r.pods("name", "hello")

	stop := r.ask("hello", "hello")
	r.helm("upgrade", "goless", chart, "--namespace", r.system, "--wait", "--timeout", patience.String(), "--values", file,
		"--set", "operator.replicas=1", "--set", "config.referencePause=5s", "--set-json", `operator.pod={"priorityClassName":"system-cluster-critical"}`)
	if got := r.kubectl("", "-n", r.system, "get", "deployment", "goless-operator", "-o", "jsonpath={.spec.replicas} {.spec.template.spec.priorityClassName}"); got != "1 system-cluster-critical" {
		t.Errorf("the environment of the upgraded operator is %q", got)
	}
	r.helm("rollback", "goless", "1", "--namespace", r.system, "--wait", "--timeout", patience.String())
	if got := r.kubectl("", "-n", r.system, "get", "deployment", "goless-operator", "-o", "jsonpath={.spec.replicas}"); got != "2" {
		t.Errorf("the operator has %q replicas after the rollback, want 2", got)
	}
	r.helm("uninstall", "goless", "--namespace", r.system, "--wait")
	r.kubectl("", "-n", apart, "get", "function/hello")
	r.helm(install...)
	r.helm("test", "goless", "--namespace", r.system)
	stop()
	if now := r.pods("name", "hello"); now != pods {
		t.Errorf("the function has the pods %s, want %s", now, pods)
	}

	r.kubectl(strings.Replace(hello, `w, "hello"`, `w, "changed"`, 1), "apply", "-f", "-")
	r.await("hello", "changed")
}

// mirror copies the images of a chart to another repository of the same registry, and returns
// it.
func (r *release) mirror(chart string) string {
	r.Helper()
	var defaults struct {
		Images map[string]string `json:"images"`
	}
	if err := yaml.Unmarshal([]byte(r.run("", os.Getenv("HELM"), "show", "values", chart)), &defaults); err != nil {
		r.Fatal(err)
	}
	to := ""
	for _, image := range defaults.Images {
		if image == "" { // the image of the mirror, which does not exist yet
			continue
		}
		name, _, _ := strings.Cut(image, "@")
		to = path.Dir(name) + "/mirror"
		r.run("", "crane", "copy", image, to+"/"+path.Base(name))
	}
	return to
}

// requires checks that a function gets the modules of its go.mod through the proxies.
func (r *release) requires() {
	r.Helper()
	var archive txtar.Archive
	for _, name := range []string{"go.mod", "go.sum", "handler.go"} {
		data, err := os.ReadFile(filepath.Join("..", "e2e", "testdata", "dependencies", name))
		if err != nil {
			r.Fatal(err)
		}
		archive.Files = append(archive.Files, txtar.File{Name: name, Data: data})
	}
	function, err := yaml.Marshal(object{
		"apiVersion": "goless.io/v1beta1", "kind": "Function", "metadata": object{"name": "requires", "namespace": apart},
		"spec": object{"function": string(txtar.Format(&archive))},
	})
	if err != nil {
		r.Fatal(err)
	}
	r.kubectl(string(function), "apply", "-f", "-")
	r.ready("requires")
	if got := r.kubectl("", "get", "--raw", "/api/v1/namespaces/"+apart+"/services/requires:8080/proxy/hello/ijsbrand"); !strings.Contains(got, "IJsbrand") {
		r.Errorf("the function with dependencies responds with %s", got)
	}
}

// pulledFrom checks that all images of Goless and of functions come from a mirror.
func (r *release) pulledFrom(mirror string) {
	r.Helper()
	for _, namespace := range []string{r.system, apart} {
		images := strings.Fields(r.kubectl("", "-n", namespace, "get", "pods", "-o", `jsonpath={.items[*].spec.containers[*].image} {.items[*].spec.initContainers[*].image}`))
		if len(images) == 0 {
			r.Errorf("%s has no pods", namespace)
		}
		for _, image := range images {
			if !strings.HasPrefix(image, mirror+"/") {
				r.Errorf("namespace %s uses the image %s, which is not from %s", namespace, image, mirror)
			}
		}
	}
}

// tellVersion checks that metrics report the version of Goless, and that of a function's image.
// Those of the operator require a token.
func (r *release) tellVersion(chart string) {
	r.Helper()
	want := `version="v` + strings.TrimSuffix(strings.TrimPrefix(filepath.Base(chart), "goless-"), ".tgz") + `"`
	for selector, namespace := range map[string]string{
		"app.kubernetes.io/name=goless-build": r.system, "app.kubernetes.io/name=goless-activator": r.system,
		"app.kubernetes.io/name=goless-triggers": r.system, "goless.io/function=hello": apart,
	} {
		pod := r.kubectl("", "-n", namespace, "get", "pods", "-l", selector, "-o", "jsonpath={.items[0].metadata.name}")
		metrics := r.kubectl("", "get", "--raw", "/api/v1/namespaces/"+namespace+"/pods/"+pod+":9090/proxy/metrics")
		if _, info, _ := strings.Cut(metrics, "_build_info{"); !strings.Contains(strings.SplitN(info, "\n", 2)[0], want) {
			r.Errorf("%s has no metric with %s:\n%s", pod, want, metrics)
		}
	}
}

// A misspelled value is rejected.
func TestWrongValue(t *testing.T) {
	chart := os.Getenv("CHART")
	if chart == "" {
		t.Skip("CHART is not set; make e2e-chart builds the chart, and runs this test")
	}
	out, err := exec.Command(os.Getenv("HELM"), "template", chart, "--set", "operator.replica=3").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "replica") {
		t.Errorf("installing with an unknown value: %v, %s", err, out)
	}
}

// A release is a Helm release of Goless in another namespace than that of deploy/.
type release struct{ *cluster }

func (r *release) helm(args ...string) {
	r.Helper()
	r.Logf("helm %s", strings.Join(args, " "))
	r.run("", os.Getenv("HELM"), args...)
}

// remove restores the initial state of the cluster.
func (r *release) remove() {
	for _, args := range [][]string{
		{os.Getenv("HELM"), "uninstall", "goless", "--namespace", r.system, "--wait", "--ignore-not-found"},
		{"kubectl", "delete", "-f", "../../deploy/10-crd.yaml", "-f", "../../deploy/15-triggers-crd.yaml", "--ignore-not-found"},
		{"kubectl", "delete", "validatingadmissionpolicybinding,validatingadmissionpolicy", r.system + "-labels", apart + "-labels", "--ignore-not-found"},
		{"kubectl", "delete", "namespace", r.system, apart, apart + "-modules", "--ignore-not-found"},
	} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			r.Errorf("%s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}
