package main

import (
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
)

const deploy = "../../../deploy"

// helm runs the command in the environment variable HELM.
func helm(t *testing.T, args ...string) string {
	t.Helper()
	path := os.Getenv("HELM")
	if path == "" {
		t.Skip("HELM does not name the helm command: make verify sets it")
	}
	out, err := exec.CommandContext(t.Context(), path, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("helm %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// buildChart generates the chart and returns its directory.
func buildChart(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "goless")
	if err := run([]string{"-deploy", deploy, "-version", "1.2.3", "-o", dir}); err != nil {
		t.Fatal(err)
	}
	return dir
}

// objects returns YAML documents by kind and name, without test hooks.
func objects(t *testing.T, text string) map[string]any {
	t.Helper()
	all := map[string]any{}
	decoder := yaml.NewDecoder(strings.NewReader(text))
	for {
		var document yaml.Node
		if err := decoder.Decode(&document); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		var object map[string]any
		if err := document.Decode(&object); err != nil {
			t.Fatal(err)
		}
		if object == nil { // only comments
			continue
		}
		name, err := nameOf(document.Content[0])
		if err != nil {
			t.Fatal(err)
		}
		if annotations, _ := object["metadata"].(map[string]any)["annotations"].(map[string]any); annotations["helm.sh/hook"] == nil {
			all[name] = object
		}
	}
}

// With default values and the namespace of deploy/, the chart is equal to deploy/, except for the
// Namespace, which helm creates, and an annotation that keeps the CustomResourceDefinitions after
// uninstallation.
func TestDefaultsEqualDeploy(t *testing.T) {
	got := objects(t, helm(t, "template", "goless", buildChart(t), "--namespace", namespace))
	want := map[string]any{}
	files, err := filepath.Glob(filepath.Join(deploy, "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		maps.Copy(want, objects(t, string(text)))
	}
	delete(want, "Namespace/"+namespace)
	for name, object := range want {
		if strings.HasPrefix(name, "CustomResourceDefinition/") {
			object.(map[string]any)["metadata"].(map[string]any)["annotations"] = map[string]any{"helm.sh/resource-policy": "keep"}
		}
	}
	if len(want) < 30 {
		t.Errorf("deploy/ contains only %d objects", len(want))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("deploy/ and the chart differ (-deploy +chart):\n%s", diff)
	}
}

// With all features enabled in another namespace, no object refers to the namespace of deploy/.
func TestAllFeaturesInOtherNamespace(t *testing.T) {
	text := helm(t, "template", "goless", buildChart(t), "--namespace", "elsewhere",
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

// Images replace import paths.
func TestImages(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "goless")
	args := []string{"-deploy", deploy, "-o", dir}
	for _, path := range []string{"operator/cmd/goless-operator", "operator/cmd/goless-activator", "operator/cmd/goless-check", "builder/cmd/builder", "runtime/cmd/launch", "trigger/cmd/goless-triggers", "trigger/cmd/deliver", "trigger/cmd/consume"} {
		args = append(args, "-image", "goless.io/"+path+"=registry.example.com/"+path+"@sha256:0123")
	}
	if err := run(args); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), "ko://") || strings.Count(string(text), "@sha256:0123\n") != 8 {
		t.Errorf("unexpected values.yaml:\n%s", text)
	}
}

// With a registry mirror, images keep their names and digests, and the access policy allows them
// for functions.
func TestMirror(t *testing.T) {
	dir := buildChart(t)
	text := helm(t, "template", "goless", dir, "--set", "images.mirror=mirror.example.com/goless/")
	if strings.Contains(text, "ko://") {
		t.Errorf("an image is not from the mirror:\n%s", text)
	}
	for _, want := range []string{
		`image: "mirror.example.com/goless/goless-operator"`, `fence.goless.io/function-image: "mirror.example.com/goless/launch"`,
		`image: "mirror.example.com/goless/goless-check"`,
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
	text := helm(t, "template", "goless", buildChart(t), "--values", file)
	for _, want := range []string{
		"        team: platform\n", "      nodeSelector:\n        pool: system\n", "    networkPolicy: true\n",
		"fence.goless.io/labels: team\n", "image: \"mirror.example.com/goless/goless-operator\"\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("missing %q in\n%s", want, text)
		}
	}
}

// A chart with only some images is an error.
func TestMissingImages(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "goless")
	err := run([]string{"-deploy", deploy, "-o", dir, "-image", "goless.io/builder/cmd/build=registry.example.com/builder"})
	for _, want := range []string{
		"images.operator is ko://goless.io/operator/cmd/goless-operator, for which there is no -image",
		"-image goless.io/builder/cmd/build: nothing in the chart is that image",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// Without admission the webhook of the operator is disabled.
func TestWithoutAdmission(t *testing.T) {
	text := helm(t, "template", "goless", buildChart(t), "--set", "admission.enabled=false")
	if strings.Contains(text, "kind: ValidatingWebhookConfiguration") || !strings.Contains(text, "\n    admission: Disabled\n") {
		t.Errorf("admission is not disabled:\n%s", text)
	}
}

// An installation for some namespaces has no cluster-wide permissions and no webhook.
func TestSomeNamespaces(t *testing.T) {
	text := helm(t, "template", "goless", buildChart(t), "--namespace", "elsewhere", "--set", "config.namespaces={team-a,team-b},secrets.enabled=true")
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
	helm(t, "lint", "--strict", buildChart(t))
}

// A package consists of the same bytes each time, although helm stores modification times.
func TestPackageIsReproducible(t *testing.T) {
	var packages []string
	for range 2 {
		dir, out := buildChart(t), t.TempDir()
		for _, name := range []string{"Chart.yaml", "values.yaml", "templates/30-operator.yaml"} {
			info, err := os.Stat(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			if !info.ModTime().Equal(epoch) {
				t.Errorf("%s has modification time %s, want %s", name, info.ModTime(), epoch)
			}
		}
		helm(t, "package", dir, "-d", out)
		text, err := os.ReadFile(filepath.Join(out, "goless-1.2.3.tgz"))
		if err != nil {
			t.Fatal(err)
		}
		packages = append(packages, string(text))
	}
	if packages[0] != packages[1] {
		t.Error("the second package differs from the first")
	}
}

// Values are validated before the installation.
func TestSchema(t *testing.T) {
	dir := buildChart(t)
	text, err := os.ReadFile(filepath.Join(dir, "values.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	if !json.Valid(text) {
		t.Fatalf("invalid JSON: %s", text)
	}
	if os.Getenv("HELM") == "" {
		t.Skip("HELM does not name the helm command: make verify sets it")
	}
	for _, wrong := range []string{
		"operator.replica=1", "operator.replicas=two", "config.rolout=Always", "config.build.timeout=60", "images.builder=", "crds.keep=maybe",
		"operator.pod.nodeselector=x", "activator.pod.containers=none", "build.resources.limit=x", "triggers.securityContext.user=1",
		"accessPolicy.parameters.fence\\.goless\\.io/label=team", "accessPolicy.parameters.fence\\.goless\\.io/builder-image=x",
	} {
		out, err := exec.CommandContext(t.Context(), os.Getenv("HELM"), "template", dir, "--set", wrong).CombinedOutput()
		if name, _, _ := strings.Cut(wrong[strings.LastIndexAny(wrong, "./")+1:], "="); err == nil || !strings.Contains(string(out), name) {
			t.Errorf("%s: %v, %s", wrong, err, out)
		}
	}
}

// An entry of chart.yaml that does not match a manifest is an error.
func TestInvalidTables(t *testing.T) {
	table, err := os.ReadFile(filepath.Join(deploy, "chart", "chart.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct{ old, changed, want string }{
		"Path":     {"name=build, image]", "name=built, image]", "images.builder: there is no Deployment/goless-build with spec, template, spec, containers, name=built, image"},
		"Document": {"document: Deployment/goless-build, path: [spec, replicas]", "document: Deployment/build, path: [spec, replicas]", "build.replicas has no default"},
		"File":     {"50-build.yaml", "50-built.yaml", "50-built.yaml: no such file"},
		"Insert":   {"into: [data, config.yaml]", "into: [data, config]", "config: there is no ConfigMap/goless-operator with data, config"},
		"Field":    {"about: The number of replicas. All of them compile.", "abuot: The number of replicas. All of them compile.", "field abuot not found"},
		"About":    {"    about: The number of replicas. All of them compile.\n", "", "build.replicas has no about"},
		"If":       {"ClusterRoleBinding/goless-activator", "ClusterRoleBinding/activator", "chart.yaml: there is no ClusterRoleBinding/activator"},
		"Pattern":  {"CustomResourceDefinition/*", "CustomResourceDefinition/[", "syntax error in pattern"},
		"Twice":    {"path: [spec, template, spec, containers, name=build, args, --max-memory=]", "path: [spec, template, spec, containers, name=build, args, --parallel=]", "two values are at the same place"},
		"Differs":  {"containers, name=build, image]", "containers, name=build, name]", "at one place and"},
	} {
		t.Run(name, func(t *testing.T) {
			if strings.Count(string(table), test.old) == 0 {
				t.Fatalf("chart.yaml does not contain %q", test.old)
			}
			dir := t.TempDir()
			if err := os.CopyFS(dir, os.DirFS(deploy)); err != nil {
				t.Fatal(err)
			}
			changed := strings.Replace(string(table), test.old, test.changed, 1)
			if err := os.WriteFile(filepath.Join(dir, "chart", "chart.yaml"), []byte(changed), 0o644); err != nil {
				t.Fatal(err)
			}
			err := run([]string{"-deploy", dir, "-o", filepath.Join(t.TempDir(), "goless")})
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}
