package admission_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/builder/handler"
	"goless.io/builder/hostile"
	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/metrics"
	"goless.io/operator/internal/settings"
)

const (
	good = "package p\n\nimport \"net/http\"\n\nfunc Handler(w http.ResponseWriter, r *http.Request) {}\n"
	bad  = "package p\n\nimport \"net/http\"\n\nfunc Handler(w http.ResponseWriter) {}\n"

	// worse has a mistake in each of two lines.
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

// contradict is a mistake that the schema does not see.
func contradict(fn *v1beta1.Function) {
	fn.Spec.Resources = &v1beta1.Resources{
		Requests: v1beta1.Amounts{Memory: new(resource.MustParse("2Gi"))},
		Limits:   v1beta1.Amounts{Memory: new(resource.MustParse("1Gi"))},
	}
}

// try asks whether a Function would be stored.
func try(t *testing.T, name, source string, change ...func(*v1beta1.Function)) error {
	t.Helper()
	return cluster.Create(t.Context(), sample(name, source, change...), client.DryRunAll)
}

// refused tells whether admission has refused, and not the schema.
func refused(err error) bool {
	return apierrors.IsInvalid(err) && strings.Contains(err.Error(), `admission webhook "functions.goless.io" denied the request`)
}

func TestAnswers(t *testing.T) {
	webhook := start(t, settings.Settings{Function: settings.Function{MaxReplicas: 5}}, 0)
	webhook.ask(t)
	allowed, denied := webhook.answers(t, metrics.Allowed), webhook.answers(t, metrics.Refused)
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
		"Signature": {try(t, "a", bad), "denied the request: handler.go:5:1: wrong signature for Handler, must be: " + handler.Signature},
		"Several":   {try(t, "a", worse), "denied the request: \n" + several.Error()},
		"Ceiling":   {try(t, "a", good, many(6)), "denied the request: spec.replicas: this cluster allows at most 5"},
		"Field":     {try(t, "a", good, contradict), "denied the request: spec.resources: the request of 2Gi memory is more than the limit of 1Gi"},
		"Both":      {try(t, "a", bad, many(6)), "denied the request: \nspec.replicas: this cluster allows at most 5\nhandler.go:5:1: wrong"},
	} {
		switch {
		case test.want == "" && test.err != nil:
			t.Errorf("%s: %v", name, test.err)
		case test.want != "" && (!refused(test.err) || !strings.Contains(test.err.Error(), test.want)):
			t.Errorf("%s: got %v, want %q", name, test.err, test.want)
		}
	}
	if allowed, denied = webhook.answers(t, metrics.Allowed)-allowed, webhook.answers(t, metrics.Refused)-denied; allowed != 2 || denied != 5 {
		t.Errorf("%v are counted as allowed and %v as refused, want 2 and 5", allowed, denied)
	}
}

// answers is how many answers of a kind the replica has counted.
func (r *replica) answers(t *testing.T, answer string) float64 {
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
	t.Fatalf("there is no count of answers that are %s", answer)
	return 0
}

// What was wrong before does not keep anybody from a change of something else.
func TestOldMistakes(t *testing.T) {
	start(t, settings.Settings{Function: settings.Function{MaxReplicas: 5}}, 0).ask(t)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		GenerateName: "exempt-", Labels: map[string]string{"goless.io/admission": "disabled"},
	}}
	if err := cluster.Create(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	within := func(fn *v1beta1.Function) { fn.Namespace = namespace.Name }
	old := sample("old", bad, within, func(fn *v1beta1.Function) { fn.Spec.Replicas = new(int32(9)) })
	eventually(t, "a namespace can do without", func() bool { return cluster.Create(t.Context(), old) == nil })
	namespace.Labels = nil
	if err := cluster.Update(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is judged again", func() bool { return refused(try(t, "probe", bad, within)) })

	change := func(what string, want bool, change func(*v1beta1.Function), options ...client.UpdateOption) {
		t.Helper()
		fn := &v1beta1.Function{}
		if err := cluster.Get(t.Context(), client.ObjectKeyFromObject(old), fn); err != nil {
			t.Fatal(err)
		}
		change(fn)
		if err := cluster.Update(t.Context(), fn, options...); refused(err) == want || want && err != nil {
			t.Errorf("%s: got %v, want it to pass: %t", what, err, want)
		}
	}
	change("labels", true, func(fn *v1beta1.Function) { fn.Labels = map[string]string{"a": "b"} })
	change("another field", true, func(fn *v1beta1.Function) { fn.Spec.Service = "other" })
	change("fewer replicas, still too many", true, func(fn *v1beta1.Function) { fn.Spec.Replicas = new(int32(8)) })
	change("another mistake", false, func(fn *v1beta1.Function) { fn.Spec.Function = worse })
	change("a mistake more", false, contradict)
	change("mended", true, func(fn *v1beta1.Function) { fn.Spec.Function = good }, client.DryRunAll)
	change("finalizers", true, func(fn *v1beta1.Function) { fn.Finalizers = []string{"example.com/a"} })
	old = sample("old", "", within)
	if err := cluster.Status().Patch(t.Context(), old, client.RawPatch("application/merge-patch+json", []byte(`{"status":{"url":"a"}}`))); err != nil {
		t.Errorf("the status: %v", err)
	}
	scale := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"replicas":7}}`))
	if err := cluster.SubResource("scale").Patch(t.Context(), old, scale); err != nil {
		t.Errorf("the scale: %v", err)
	}
	old = sample("old", "", within)
	if err := cluster.Delete(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	change("the last finalizer", true, func(fn *v1beta1.Function) { fn.Finalizers = nil })
}

// The largest source is compared with the one before it, in ASCII and where each
// character takes four bytes, and judged when it is another one.
func TestChangeOfTheLargest(t *testing.T) {
	start(t, settings.Settings{}, 0).ask(t)
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
		if err := cluster.Update(t.Context(), fn); !refused(err) {
			t.Errorf("%s: another source: %.300v", name, err)
		}
		if err := cluster.Delete(t.Context(), fn); err != nil {
			t.Error(err)
		}
	}
}

// An operator of some namespaces has no say in the others.
func TestOtherNamespaces(t *testing.T) {
	start(t, settings.Settings{}, 0).ask(t)
	r := start(t, settings.Settings{Namespaces: []string{"kube-public"}, Admission: settings.AdmissionEnabled}, 0)
	r.redirect(t)
	eventually(t, "its own namespace is judged, and no other", func() bool {
		own := try(t, "a", bad, func(fn *v1beta1.Function) { fn.Namespace = "kube-public" })
		return refused(own) && try(t, "a", bad) == nil
	})
}

// The figures are of the API server with the webhook, less those without: what the
// answer costs whoever applies a Function.
func TestTimeOfAnswer(t *testing.T) {
	start(t, settings.Settings{}, 0).ask(t)
	cases, err := hostile.Cases()
	if err != nil {
		t.Fatal(err)
	}
	const line = "func f%d(a int) int { return a + 1 }\n"
	largest := []byte(good)
	for i := 0; len(largest)+len(line)+8 < handler.MaxCharacters; i++ {
		largest = fmt.Appendf(largest, line, i)
	}
	cases = append(cases, hostile.Case{Name: "largest", Source: largest, Reason: "Built"})
	asked, alone := map[string]time.Duration{}, map[string]time.Duration{}
	for _, c := range cases {
		asked[c.Name] = median(t, c, "default", c.Reason == "InvalidSource")
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		GenerateName: "exempt-", Labels: map[string]string{"goless.io/admission": "disabled"},
	}}
	if err := cluster.Create(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a namespace can do without", func() bool {
		return try(t, "a", bad, func(fn *v1beta1.Function) { fn.Namespace = namespace.Name }) == nil
	})
	for _, c := range cases {
		alone[c.Name] = median(t, c, namespace.Name, false)
		if more := asked[c.Name] - alone[c.Name]; len(c.Source) > 100<<10 || more > 20*time.Millisecond {
			t.Logf("%-20s %7d bytes: %5.1f ms more, %5.1f ms in all", c.Name, len(c.Source), more.Seconds()*1000, asked[c.Name].Seconds()*1000)
		}
	}
}

// median is how long one of five tries takes.
func median(t *testing.T, c hostile.Case, namespace string, refuse bool) time.Duration {
	t.Helper()
	var all []time.Duration
	for range 5 {
		began := time.Now()
		err := try(t, "a", string(c.Source), func(fn *v1beta1.Function) { fn.Namespace = namespace })
		all = append(all, time.Since(began))
		if refused(err) != refuse || !refuse && err != nil {
			t.Fatalf("%s: %v", c.Name, err)
		}
	}
	slices.Sort(all)
	return all[len(all)/2]
}
