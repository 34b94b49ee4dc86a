package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	lua "github.com/yuin/gopher-lua"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"goless.io/operator/api/v1beta1"
	"goless.io/test/docs/markdown"
)

// argoHealth is a health in Argo CD.
type argoHealth struct{ Status, Message string }

// argoCD evaluates the health check of the documentation as Argo CD does: with its implementation of
// Lua, and only the libraries that Argo CD opens.
type argoCD struct{ script string }

func newArgoCD(t *testing.T) argoCD {
	t.Helper()
	page, err := markdown.Read(repo, filepath.Join("docs", "how-to", "gitops.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range page.Blocks {
		var settings struct{ Data map[string]string }
		if yaml.Unmarshal([]byte(block.Text), &settings) == nil && settings.Data["resource.customizations.health.goless.io_Function"] != "" {
			return argoCD{settings.Data["resource.customizations.health.goless.io_Function"]}
		}
	}
	t.Fatal("docs/how-to/gitops.md has no health check for Argo CD")
	return argoCD{}
}

// health returns the health of an object. Argo CD does not run the check for an object that is being
// deleted.
func (a argoCD) health(object *unstructured.Unstructured) (h argoHealth, err error) {
	if object.GetDeletionTimestamp() != nil {
		return argoHealth{"Progressing", "Pending deletion"}, nil
	}
	l := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer l.Close()
	for name, open := range map[string]lua.LGFunction{lua.LoadLibName: lua.OpenPackage, lua.BaseLibName: lua.OpenBase, lua.TabLibName: lua.OpenTable} {
		if err := l.CallByParam(lua.P{Fn: l.NewFunction(open), Protect: true}, lua.LString(name)); err != nil {
			return h, err
		}
	}
	l.SetGlobal("obj", luaValue(l, object.Object))
	if err := l.DoString(a.script); err != nil {
		return h, err
	}
	table, ok := l.Get(-1).(*lua.LTable)
	if !ok {
		return h, fmt.Errorf("the health check returned %s", l.Get(-1).Type())
	}
	h = argoHealth{lua.LVAsString(table.RawGetString("status")), lua.LVAsString(table.RawGetString("message"))}
	if !slices.Contains([]string{"Healthy", "Progressing", "Degraded", "Suspended"}, h.Status) {
		return h, fmt.Errorf("%q is not a health", h.Status)
	}
	return h, nil
}

// luaValue converts a value of an object.
func luaValue(l *lua.LState, value any) lua.LValue {
	switch value := value.(type) {
	case bool:
		return lua.LBool(value)
	case string:
		return lua.LString(value)
	case int64:
		return lua.LNumber(value)
	case float64:
		return lua.LNumber(value)
	case []any:
		table := l.NewTable()
		for _, item := range value {
			table.Append(luaValue(l, item))
		}
		return table
	case map[string]any:
		table := l.NewTable()
		for key, item := range value {
			table.RawSetString(key, luaValue(l, item))
		}
		return table
	}
	return lua.LNil
}

// unhealthy are objects that are not ready, and some that are.
const unhealthy = `
apiVersion: goless.io/v1alpha1
kind: CronTrigger
metadata: {name: set-up}
spec: {functionRef: {name: good}, schedule: "@yearly"}
---
apiVersion: goless.io/v1alpha1
kind: CronTrigger
metadata: {name: early}
spec: {functionRef: {name: missing}, schedule: "@yearly"}
---
apiVersion: goless.io/v1alpha1
kind: HTTPTrigger
metadata: {name: foreign}
spec: {functionRef: {name: good}, hostnames: [bank.test]}
---
apiVersion: goless.io/v1alpha1
kind: KafkaTrigger
metadata: {name: unreachable}
spec: {functionRef: {name: good}, topic: orders, brokers: ["kafka.invalid:9092"]}
---
apiVersion: goless.io/v1alpha1
kind: NATSTrigger
metadata: {name: unreachable-nats}
spec: {functionRef: {name: good}, subject: orders, servers: ["nats://nats.invalid:4222"]}
---
apiVersion: goless.io/v1beta1
kind: FunctionClass
metadata: {name: NAME}
spec: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: NAME}}}
`

// The health check of the documentation returns the right health for each kind in each condition,
// and never another one on the way there.
func TestNeighbourArgoCD(t *testing.T) {
	ns := newNamespace(t)
	argo := newArgoCD(t)
	t.Cleanup(func() { ns.kubectlAtEnd("delete", "functionclass/"+ns.name) })
	ns.applyYAML(strings.ReplaceAll(unhealthy, "NAME", ns.name))

	good := ns.apply(function("good", answering("good")))
	sleepy := ns.apply(function("sleepy", answering("sleepy"), sleeping))
	broken := ns.apply(function("broken", undefined))
	stopped := ns.apply(function("stopped", answering("stopped"), replicas(0)))
	updated := ns.apply(function("updated", answering("first")))
	waiting := ns.apply(function("waiting", answering("waiting"), func(spec *v1beta1.FunctionSpec) {
		spec.EnvFrom = []v1beta1.EnvFromSource{{ConfigMapRef: &v1beta1.ObjectRef{Name: "missing"}}}
	}))
	ns.ready(good)
	updated = ns.ready(updated)
	ns.stalled(ns.change(updated, source(undefined)), v1beta1.ReasonCompileFailed)
	ns.stalled(broken, v1beta1.ReasonCompileFailed)
	ns.ready(stopped)
	ns.asleep(ns.ready(sleepy))
	deleted := ns.apply(function("deleted", answering("deleted")))
	ns.kubectl("patch", "function/deleted", "--type=merge", `--patch={"metadata": {"finalizers": ["example.com/stay"]}}`)
	t.Cleanup(func() {
		ns.kubectlAtEnd("patch", "function/deleted", "--type=merge", `--patch={"metadata": {"finalizers": null}}`)
	})
	ns.kubectl("delete", "function/deleted", "--wait=false")

	for _, test := range []struct{ kind, name, want, part string }{
		{"Function", good.Name, "Healthy", "serving"},
		{"Function", broken.Name, "Degraded", "undefined: greeting"},
		{"Function", updated.Name, "Degraded", "continues to serve"},
		{"Function", sleepy.Name, "Healthy", ""},
		{"Function", stopped.Name, "Healthy", ""},
		{"Function", waiting.Name, "Progressing", "missing"},
		{"Function", deleted.Name, "Progressing", "Pending deletion"},
		{"CronTrigger", "set-up", "Healthy", ""},
		{"CronTrigger", "early", "Progressing", `Function "missing" not found`},
		{"HTTPTrigger", "foreign", "Degraded", "bank.test is not allowed"},
		{"KafkaTrigger", "unreachable", "Progressing", "kafka.invalid"},
		{"NATSTrigger", "unreachable-nats", "Progressing", "nats.invalid"},
		{"FunctionClass", ns.name, "Healthy", ""},
	} {
		ns.eventually(test.kind+" "+test.name+" is "+test.want, func() error {
			got, err := argo.health(ns.object(test.kind, test.name))
			if err == nil && (got.Status != test.want || !strings.Contains(got.Message, test.part)) {
				err = fmt.Errorf("it is %+v", got)
			}
			return err
		})
	}
	for _, name := range []string{good.Name, sleepy.Name} {
		if history := argo.healthHistory(ns, name); !slices.Equal(history, []string{"Progressing", "Healthy"}) {
			t.Errorf("the health of Function %s was %v", name, history)
		}
	}
	seen(t, "Argo CD itself was not run. The documented health check, run with gopher-lua, reports each kind in each condition correctly.")
}

// healthHistory returns the health of a Function at each of its versions, without repetitions.
func (a argoCD) healthHistory(ns *namespace, name string) (history []string) {
	ns.t.Helper()
	for _, fn := range versions[*v1beta1.Function](ns.witness) {
		if fn.Name != name {
			continue
		}
		h, err := a.health(toUnstructured(ns.t, fn))
		if err != nil {
			ns.t.Fatal(err)
		}
		history = append(history, h.Status)
	}
	return slices.Compact(history)
}

// A live object is equal to its manifest, with server-side defaults, in the comparisons that Argo CD
// uses: a three-way merge after client-side apply, and server-side apply.
func TestNeighbourArgoCDDiff(t *testing.T) {
	ns := newNamespace(t, func(object *corev1.Namespace) { object.Annotations["goless.io/hostnames"] = "*.example" })
	text, err := os.ReadFile("testdata/flux.yaml")
	if err != nil {
		t.Fatal(err)
	}
	manifest := filepath.Join(t.TempDir(), "manifest.yaml")
	if err := os.WriteFile(manifest, []byte(strings.NewReplacer("BROKER", "kafka.invalid", "NAMESPACE", "invalid").Replace(string(text))), 0o600); err != nil {
		t.Fatal(err)
	}
	ns.kubectl("apply", "-f", manifest)
	ns.ready(get(ns, "everything", &v1beta1.Function{}))
	ns.kubectl("diff", "-f", manifest) // fails if there is a difference
	ns.kubectl("apply", "--server-side", "--force-conflicts", "--field-manager=argocd-controller", "-f", manifest)
	ns.kubectl("diff", "--server-side", "--field-manager=argocd-controller", "-f", manifest)
	made := ns.kubectl("get", "deployments,services,configmaps,ingresses,cronjobs,rolebindings", "--selector=goless.io/function", "--output=jsonpath={.items[*].metadata.labels}")
	if strings.Contains(made, "app.kubernetes.io/instance") {
		t.Errorf("objects of a Function have its tracking label, so Argo CD would prune them: %s", made)
	}
	seen(t, "Manifests with all fields do not differ from the objects in the cluster, in a three-way and a server-side diff.")
}

// object reads an object of Goless from the API server.
func (ns *namespace) object(kind, name string) *unstructured.Unstructured {
	ns.t.Helper()
	object := &unstructured.Unstructured{}
	object.SetAPIVersion("goless.io/v1alpha1")
	if strings.HasPrefix(kind, "Function") {
		object.SetAPIVersion("goless.io/v1beta1")
	}
	object.SetKind(kind)
	key := client.ObjectKey{Name: name}
	if kind != "FunctionClass" {
		key.Namespace = ns.name
	}
	if err := ns.client.Get(ns.t.Context(), key, object); err != nil {
		ns.t.Fatal(err)
	}
	return object
}

// toUnstructured converts a Function as the witness has seen it.
func toUnstructured(t *testing.T, fn *v1beta1.Function) *unstructured.Unstructured {
	t.Helper()
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(fn)
	if err != nil {
		t.Fatal(err)
	}
	return &unstructured.Unstructured{Object: object}
}

// kubectlAtEnd runs a command in the namespace after the test.
func (ns *namespace) kubectlAtEnd(args ...string) {
	ns.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if _, err := kubectl(ctx, append([]string{"-n", ns.name}, args...)...); err != nil {
		ns.t.Error(err)
	}
}
