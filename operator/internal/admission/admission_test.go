package admission_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/builder/handler"
	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/metrics"
	"goless.io/operator/internal/settings"
)

const (
	good = "package p\n\nimport \"net/http\"\n\nfunc Handler(w http.ResponseWriter, r *http.Request) {}\n"
	bad  = "package p\n\nimport \"net/http\"\n\nfunc Handler(w http.ResponseWriter) {}\n"

	// worse contains two errors.
	worse = "package p\n\nimport \"C\"\n\nfunc Handler() {}\n"
)

func sample(name, source string, change ...func(*v1beta1.Function)) *v1beta1.Function {
	fn := &v1beta1.Function{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec:       v1beta1.FunctionSpec{Function: source},
	}
	for _, c := range change {
		c(fn)
	}
	return fn
}

// invalidResources sets requests above the limits, which the schema does not detect.
func invalidResources(fn *v1beta1.Function) {
	fn.Spec.Resources = &v1beta1.Resources{
		Requests: v1beta1.Amounts{Memory: new(resource.MustParse("2Gi"))},
		Limits:   v1beta1.Amounts{Memory: new(resource.MustParse("1Gi"))},
	}
}

// try creates a Function in a dry run.
func try(t *testing.T, name, source string, change ...func(*v1beta1.Function)) error {
	t.Helper()
	return cluster.Create(t.Context(), sample(name, source, change...), client.DryRunAll)
}

// isDenied reports whether the webhook, and not the schema, has denied a request. The error must not
// be Invalid: clients that apply with force delete and recreate the object then.
func isDenied(err error) bool {
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), `admission webhook "functions.goless.io" denied the request`)
}

func TestWebhook(t *testing.T) {
	webhook := start(t, settings.Settings{Function: settings.Function{MaxReplicas: 5}})
	webhook.serveWebhook(t)
	allowed, denied := webhook.admissions(t, metrics.Allowed), webhook.admissions(t, metrics.Denied)
	many := func(n int32) func(*v1beta1.Function) {
		return func(fn *v1beta1.Function) { fn.Spec.Replicas = &n }
	}
	_, several := handler.Parse(handler.Filename, []byte(worse))
	for name, test := range map[string]struct {
		err  error
		want string
	}{
		"Good":      {try(t, "a", good), ""},
		"Example":   {try(t, "a", strings.ReplaceAll(good, "package p", "package handlers"), many(5)), ""},
		"Signature": {try(t, "a", bad), "denied the request: handler.go:5:1: wrong signature for Handler, want: " + handler.Signature},
		"Several":   {try(t, "a", worse), "denied the request: \n" + several.Error()},
		"Ceiling":   {try(t, "a", good, many(6)), "denied the request: spec.replicas: Invalid value: 6: this cluster allows at most 5"},
		"Field":     {try(t, "a", good, invalidResources), `denied the request: spec.resources.requests.memory: Invalid value: "2Gi": exceeds the limit of 1Gi`},
		"Both":      {try(t, "a", bad, many(6)), "denied the request: \nspec.replicas: Invalid value: 6: this cluster allows at most 5\nhandler.go:5:1: wrong"},
	} {
		switch {
		case test.want == "" && test.err != nil:
			t.Errorf("%s: %v", name, test.err)
		case test.want != "" && (!isDenied(test.err) || !strings.Contains(test.err.Error(), test.want)):
			t.Errorf("%s: got %v, want %q", name, test.err, test.want)
		}
	}
	if allowed, denied = webhook.admissions(t, metrics.Allowed)-allowed, webhook.admissions(t, metrics.Denied)-denied; allowed != 2 || denied != 5 {
		t.Errorf("counted %v allowed and %v denied requests, want 2 and 5", allowed, denied)
	}
}

// admissions returns the value of goless_admissions_total for an answer.
func (r *replica) admissions(t *testing.T, answer string) float64 {
	t.Helper()
	families, err := r.metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, series := range family.Metric {
			if family.GetName() == "goless_admissions_total" && series.Label[0].GetValue() == answer {
				return series.Counter.GetValue()
			}
		}
	}
	t.Fatalf("no counter for the answer %s", answer)
	return 0
}

// Errors of the stored Function do not prevent other changes.
func TestExistingErrorsAllowed(t *testing.T) {
	start(t, settings.Settings{Function: settings.Function{MaxReplicas: 5}}).serveWebhook(t)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		GenerateName: "exempt-", Labels: map[string]string{"goless.io/admission": "disabled"},
	}}
	if err := cluster.Create(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	within := func(fn *v1beta1.Function) { fn.Namespace = namespace.Name }
	old := sample("old", bad, within, func(fn *v1beta1.Function) { fn.Spec.Replicas = new(int32(9)) })
	eventually(t, "namespace exempt from admission", func() bool { return cluster.Create(t.Context(), old) == nil })
	namespace.Labels = nil
	if err := cluster.Update(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	eventually(t, "namespace validated again", func() bool { return isDenied(try(t, "probe", bad, within)) })

	change := func(what string, want bool, change func(*v1beta1.Function), options ...client.UpdateOption) {
		t.Helper()
		fn := &v1beta1.Function{}
		if err := cluster.Get(t.Context(), client.ObjectKeyFromObject(old), fn); err != nil {
			t.Fatal(err)
		}
		change(fn)
		if err := cluster.Update(t.Context(), fn, options...); isDenied(err) == want || want && err != nil {
			t.Errorf("%s: got %v, want allowed: %t", what, err, want)
		}
	}
	change("labels", true, func(fn *v1beta1.Function) { fn.Labels = map[string]string{"a": "b"} })
	change("another field", true, func(fn *v1beta1.Function) { fn.Spec.Service = "other" })
	change("fewer replicas, still too many", true, func(fn *v1beta1.Function) { fn.Spec.Replicas = new(int32(8)) })
	change("another mistake", false, func(fn *v1beta1.Function) { fn.Spec.Function = worse })
	change("a mistake more", false, invalidResources)
	change("fixed", true, func(fn *v1beta1.Function) { fn.Spec.Function = good }, client.DryRunAll)
	change("finalizers", true, func(fn *v1beta1.Function) { fn.Finalizers = []string{"example.com/a"} })
	old = sample("old", "", within)
	if err := cluster.Status().Patch(t.Context(), old, client.RawPatch("application/merge-patch+json", []byte(`{"status":{"url":"a"}}`))); err != nil {
		t.Errorf("updating the status: %v", err)
	}
	scale := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"replicas":7}}`))
	if err := cluster.SubResource("scale").Patch(t.Context(), old, scale); err != nil {
		t.Errorf("updating the scale: %v", err)
	}
	old = sample("old", "", within)
	if err := cluster.Delete(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	change("the last finalizer", true, func(fn *v1beta1.Function) { fn.Finalizers = nil })
}

// A ServiceAccount is denied, with the commands that allow it, unless RBAC allows it for functions.
// If it is no longer allowed, the Function can still be changed.
func TestAccounts(t *testing.T) {
	start(t, settings.Settings{}).serveWebhook(t)
	reader := func(fn *v1beta1.Function) { fn.Spec.ServiceAccountName = "reader" }
	fn := sample("accounts", good, reader)
	err := cluster.Create(t.Context(), fn)
	for _, want := range []string{
		"denied the request: spec.serviceAccountName: Forbidden: functions in namespace default may not use ServiceAccount reader",
		"kubectl -n default create role run-functions-as-reader --verb=run-functions-as --resource=serviceaccounts --resource-name=reader",
		"--serviceaccount=goless-system:goless-operator",
	} {
		if !isDenied(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	meta := metav1.ObjectMeta{Namespace: "default", Name: "run-functions-as-reader"}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "goless-system", Name: "goless-operator"}},
	}
	rule := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"serviceaccounts"}, ResourceNames: []string{"reader"}, Verbs: []string{"run-functions-as"}}
	for _, object := range []client.Object{&rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{rule}}, binding} {
		if err := cluster.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "account allowed", func() bool { return cluster.Create(t.Context(), fn) == nil })
	if err := cluster.Delete(t.Context(), binding); err != nil {
		t.Fatal(err)
	}
	eventually(t, "account no longer allowed", func() bool {
		other := sample("others", good, reader)
		err := cluster.Create(t.Context(), other)
		if err == nil {
			err = cluster.Delete(t.Context(), other)
		}
		return isDenied(err)
	})
	fn.Spec.Concurrency = 7
	if err := cluster.Update(t.Context(), fn); err != nil {
		t.Errorf("another field: %v", err)
	}
	fn.Spec.ServiceAccountName = "writer"
	if err := cluster.Update(t.Context(), fn); !isDenied(err) {
		t.Errorf("another account: %v", err)
	}
}

// A dry run does not require that the class exists, or that RBAC allows the account: both may be
// applied with the Function. Other errors are denied.
func TestDryRunOfObjectsAppliedTogether(t *testing.T) {
	start(t, settings.Settings{}).serveWebhook(t)
	var warnings []string
	config := rest.CopyConfig(server)
	config.WarningHandler = warner(func(text string) { warnings = append(warnings, text) })
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	together := sample("together", good, func(fn *v1beta1.Function) {
		fn.Spec.ServiceAccountName, fn.Spec.ClassName = "together", "together"
	})
	if err := c.Create(t.Context(), together.DeepCopy(), client.DryRunAll); err != nil {
		t.Error(err)
	}
	for i, want := range []string{"spec.className: Invalid", "spec.serviceAccountName: Forbidden"} {
		if len(warnings) != 2 || !strings.HasPrefix(warnings[i], want) {
			t.Errorf("got warnings %q, want %q", warnings, want)
		}
	}
	bad := sample("together", bad, func(fn *v1beta1.Function) { fn.Spec = together.Spec; fn.Spec.Function = bad })
	if err := c.Create(t.Context(), bad, client.DryRunAll); !isDenied(err) || strings.Contains(err.Error(), "together") {
		t.Errorf("invalid source: %v", err)
	}
	if err := c.Create(t.Context(), together); !isDenied(err) {
		t.Errorf("without a dry run: %v", err)
	}
}

// The largest source, in ASCII and with four-byte characters, is compared with its previous version
// and validated if it has changed.
func TestLargestSource(t *testing.T) {
	start(t, settings.Settings{}).serveWebhook(t)
	for name, letter := range map[string]string{"ascii": "a", "wide": "\U0001F600"} {
		fill := func(source string) string {
			return source + "//" + strings.Repeat(letter, handler.MaxCharacters-len(source)-2)
		}
		fn := sample(name, fill(good))
		if err := cluster.Create(t.Context(), fn); err != nil {
			t.Fatal(err)
		}
		fn.Labels = map[string]string{"a": "b"}
		if err := cluster.Update(t.Context(), fn); err != nil {
			t.Errorf("%s: labels: %v", name, err)
		}
		fn.Spec.Function = fill(bad)
		if err := cluster.Update(t.Context(), fn); !isDenied(err) {
			t.Errorf("%s: another source: %.300v", name, err)
		}
		if err := cluster.Delete(t.Context(), fn); err != nil {
			t.Error(err)
		}
	}
}

// An operator that watches some namespaces does not validate Functions in others.
func TestUnwatchedNamespace(t *testing.T) {
	start(t, settings.Settings{}).serveWebhook(t)
	r := start(t, settings.Settings{Namespaces: []string{"kube-public"}, Admission: settings.AdmissionEnabled})
	r.redirect(t)
	eventually(t, "only the watched namespace validated", func() bool {
		own := try(t, "a", bad, func(fn *v1beta1.Function) { fn.Namespace = "kube-public" })
		return isDenied(own) && try(t, "a", bad) == nil
	})
}
