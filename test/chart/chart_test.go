// Package chart tests the templates of the Helm chart, without a cluster. Package install tests the chart
// on a cluster.
package chart

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/yaml"
)

const (
	deploy = "../../deploy"
	chart  = deploy + "/chart"

	// namespace is the namespace of deploy/.
	namespace = "goless-system"
)

// helm runs the command in the environment variable HELM.
func helm(t *testing.T, args ...string) string {
	t.Helper()
	path := os.Getenv("HELM")
	if path == "" {
		t.Skip("HELM is not set: make verify sets it")
	}
	var stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("helm %s: %v\n%s%s", strings.Join(args, " "), err, out, stderr.String())
	}
	return string(out)
}

// objects returns YAML documents by kind and name, without test hooks.
func objects(t *testing.T, text string) map[string]any {
	t.Helper()
	all := map[string]any{}
	decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096)
	for {
		var object map[string]any
		if err := decoder.Decode(&object); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		if object == nil { // only comments
			continue
		}
		metadata := object["metadata"].(map[string]any)
		if annotations, _ := metadata["annotations"].(map[string]any); annotations["helm.sh/hook"] == nil {
			all[object["kind"].(string)+"/"+metadata["name"].(string)] = object
		}
	}
}

// With the default values, the chart contains the objects of deploy/, except for the Namespace, and
// keeps the CustomResourceDefinitions when it is uninstalled.
func TestDefaultsEqualDeploy(t *testing.T) {
	want := deployed(t)
	delete(want, "Namespace/"+namespace)
	for name, object := range want {
		if !strings.HasPrefix(name, "CustomResourceDefinition/") {
			continue
		}
		metadata := object.(map[string]any)["metadata"].(map[string]any)
		if metadata["annotations"] != nil {
			t.Fatalf("%s has annotations, and crds.yaml would replace them", name)
		}
		metadata["annotations"] = map[string]any{"helm.sh/resource-policy": "keep"}
	}
	if diff := cmp.Diff(want, objects(t, helm(t, "template", "goless", chart, "--namespace", namespace))); diff != "" {
		t.Errorf("the chart, -deploy +chart:\n%s", diff)
	}
}

// deployed returns the objects of deploy/ by kind and name.
func deployed(t *testing.T) map[string]any {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(deploy, "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]any{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for name, object := range objects(t, string(text)) {
			if all[name] != nil {
				t.Errorf("%s is twice in deploy/", name)
			}
			all[name] = object
		}
	}
	return all
}

// With all features enabled in another namespace, no object refers to the namespace of deploy/.
func TestAllFeaturesInOtherNamespace(t *testing.T) {
	text := helm(t, "template", "goless", chart, "--namespace", "elsewhere",
		"--set", "certManager.enabled=true,secrets.enabled=true,crds.keep=false",
		"--set", "monitoring.podMonitor.enabled=true,monitoring.serviceMonitor.enabled=true,monitoring.prometheusRules.enabled=true,monitoring.dashboards.enabled=true",
		"--set", "monitoring.prometheusRules.docs=https://git.example.com/docs/",
		"--set", "operator.replicas=3,build.storeSize=20000000,build.pod.priorityClassName=high,config.build.strategy=Shared",
		"--set", "accessPolicy.parameters.fence\\.goless\\.io/labels=team")
	if strings.Contains(text, namespace) {
		t.Errorf("the chart refers to namespace %s:\n%s", namespace, text)
	}
	all := objects(t, text)
	for _, name := range []string{
		"Certificate/goless-webhook", "ClusterRole/goless-operator-secrets", "PodMonitor/goless-functions", "ServiceMonitor/goless-operator",
		"PrometheusRule/goless-operator", "PrometheusRule/goless-functions", "ConfigMap/goless-operator-dashboard", "ConfigMap/goless-functions-dashboard",
	} {
		if all[name] == nil {
			t.Errorf("missing %s", name)
		}
	}
	for _, want := range []string{
		"--store-size=20000000\n", "priorityClassName: high\n", "    build:\n      strategy: Shared\n", "    watchSecrets: true\n",
		"runbook_url: https://git.example.com/docs/runbook.md#functionerrors\n", "runbook_url: https://git.example.com/docs/runbook.md#golessoperatorgone\n",
		"fence.goless.io/labels: team\n", "checksum/config: ", "goless-webhook.elsewhere.svc",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("missing %q in\n%s", want, text)
		}
	}
	if strings.Contains(text, "resource-policy") {
		t.Error("helm keeps a CustomResourceDefinition")
	}
}

// With a registry mirror, images keep their names and digests, and the access policy allows them
// for functions.
func TestMirror(t *testing.T) {
	text := helm(t, "template", "goless", chart, "--set", "images.mirror=mirror.example.com/goless/")
	if strings.Contains(text, "ko://") {
		t.Errorf("an image is not from the mirror:\n%s", text)
	}
	for _, want := range []string{
		"image: mirror.example.com/goless/goless-operator\n", "fence.goless.io/function-image: mirror.example.com/goless/launch\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("missing %s in\n%s", want, text)
		}
	}
}

// The values in the documentation exist in the chart.
func TestDocumentedValues(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(deploy, "..", "docs", "how-to", "install.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, values, _ := strings.Cut(string(page), "```yaml values.yaml\n")
	values, _, found := strings.Cut(values, "```")
	if !found {
		t.Fatal("install.md contains no values.yaml")
	}
	file := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(file, []byte(values), 0o600); err != nil {
		t.Fatal(err)
	}
	text := helm(t, "template", "goless", chart, "--values", file)
	for _, want := range []string{
		"        team: platform\n", "      nodeSelector:\n        pool: system\n", "    networkPolicy: true\n",
		"fence.goless.io/labels: team\n", "image: mirror.example.com/goless/goless-operator\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("missing %q in\n%s", want, text)
		}
	}
}

// Without admission the webhook of the operator is disabled.
func TestWithoutAdmission(t *testing.T) {
	text := helm(t, "template", "goless", chart, "--set", "admission.enabled=false")
	if strings.Contains(text, "kind: ValidatingWebhookConfiguration") || !strings.Contains(text, "\n    admission: Disabled\n") {
		t.Errorf("admission is not disabled:\n%s", text)
	}
}

// An installation for some namespaces has no cluster-wide permissions and no webhook.
func TestSomeNamespaces(t *testing.T) {
	text := helm(t, "template", "goless", chart, "--namespace", "elsewhere", "--set", "config.namespaces={team-a,team-b},secrets.enabled=true")
	all := objects(t, text)
	for _, name := range []string{
		"ClusterRoleBinding/goless-operator", "ClusterRoleBinding/goless-operator-secrets", "ClusterRoleBinding/goless-activator",
		"ClusterRoleBinding/goless-triggers", "ValidatingWebhookConfiguration/goless-webhook",
	} {
		if all[name] != nil {
			t.Errorf("unexpected %s", name)
		}
	}
	for _, name := range []string{"goless-operator", "goless-operator-secrets", "goless-activator", "goless-triggers"} {
		binding, _ := all["RoleBinding/"+name+"-functions"].(map[string]any)
		if all["ClusterRole/"+name] == nil || binding == nil {
			t.Errorf("no RoleBinding refers to ClusterRole %s", name)
			continue
		}
		account := map[string]any{"kind": "ServiceAccount", "name": strings.TrimSuffix(name, "-secrets"), "namespace": "elsewhere"}
		if diff := cmp.Diff([]any{account}, binding["subjects"]); diff != "" {
			t.Errorf("RoleBinding of %s (-want +got):\n%s", name, diff)
		}
	}
	for want, count := range map[string]int{
		"  namespace: team-a\n": 4, "  namespace: team-b\n": 4, "            - --namespaces=team-a,team-b\n": 2, "- --admission=false\n": 1,
	} {
		if got := strings.Count(text, want); got != count {
			t.Errorf("%q occurs %d times, want %d:\n%s", want, got, count, text)
		}
	}
}

func TestLint(t *testing.T) {
	helm(t, "lint", "--strict", chart)
}

// Values are validated before the installation.
func TestSchema(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(chart, "values.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	if !json.Valid(text) {
		t.Fatalf("invalid JSON: %s", text)
	}
	if os.Getenv("HELM") == "" {
		t.Skip("HELM is not set: make verify sets it")
	}
	for _, wrong := range []string{
		"operator.replica=1", "operator.replicas=two", "config.rolout=Always", "config.build.timeout=60", "images.builder=", "crds.keep=maybe",
		"operator.pod.nodeselector=x", "activator.pod.containers=none", "build.resources.limit=x", "triggers.securityContext.user=1",
		"accessPolicy.parameters.fence\\.goless\\.io/label=team", "accessPolicy.parameters.fence\\.goless\\.io/builder-image=x",
	} {
		out, err := exec.CommandContext(t.Context(), os.Getenv("HELM"), "template", chart, "--set", wrong).CombinedOutput()
		if name, _, _ := strings.Cut(wrong[strings.LastIndexAny(wrong, "./")+1:], "="); err == nil || !strings.Contains(string(out), name) {
			t.Errorf("%s: %v, %s", wrong, err, out)
		}
	}
}
