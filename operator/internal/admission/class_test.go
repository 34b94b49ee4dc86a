package admission_test

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/metrics"
	"goless.io/operator/internal/settings"
)

// A second default class for a namespace causes a warning, even if the spec does not change, and
// counts as allowed.
func TestSecondDefaultClass(t *testing.T) {
	webhook := start(t, settings.Settings{Images: settings.Images{Builder: "example/builder:1", Function: "example/launch:1"}})
	webhook.serveWebhook(t)
	notValidated := webhook.admissions(t, metrics.NotValidated)
	var warnings []string
	config := rest.CopyConfig(server)
	config.WarningHandler = warner(func(text string) { warnings = append(warnings, text) })
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	class := func(name string) *v1beta1.FunctionClass {
		object := &v1beta1.FunctionClass{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{v1beta1.DefaultClassAnnotation: "true"}}}
		object.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: "goless-system"}}
		return object
	}
	standard := class("standard")
	if err := c.Create(t.Context(), standard); err != nil || len(warnings) > 0 {
		t.Fatal(err, warnings)
	}
	t.Cleanup(func() { cluster.Delete(context.Background(), standard) }) //nolint:errcheck // best effort
	const want = "more than one FunctionClass is the default of namespace goless-system: "
	eventually(t, "warning for the second default class", func() bool { // when the first one is in the cache
		warnings = nil
		if err := c.Create(t.Context(), class("second"), client.DryRunAll); err != nil {
			t.Fatal(err)
		}
		return len(warnings) == 1 && strings.HasPrefix(warnings[0], want+"second, standard; ")
	})
	later := class("later")
	later.Annotations = nil
	warnings = nil
	if err := c.Create(t.Context(), later); err != nil || len(warnings) > 0 {
		t.Fatal(err, warnings)
	}
	t.Cleanup(func() { cluster.Delete(context.Background(), later) }) //nolint:errcheck // best effort
	later.Annotations = class("later").Annotations
	if err := c.Update(t.Context(), later, client.DryRunAll); err != nil || len(warnings) != 1 || !strings.HasPrefix(warnings[0], want) {
		t.Errorf("class that becomes a default class: %v %q", err, warnings)
	}
	if now := webhook.admissions(t, metrics.NotValidated); now != notValidated {
		t.Errorf("%v classes could not be validated", now-notValidated)
	}
}

// warner is a rest.WarningHandler that receives the text of each warning.
type warner func(text string)

func (w warner) HandleWarningHeader(_ int, _, text string) { w(text) }

// A class is denied with the path of each field that the API server would reject in a Deployment.
func TestClasses(t *testing.T) {
	webhook := start(t, settings.Settings{Images: settings.Images{Builder: "example/builder:1", Function: "example/launch:1"}})
	webhook.serveWebhook(t)
	notValidated := webhook.admissions(t, metrics.NotValidated)
	term := corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "disk", Operator: "Is"}}}
	for name, test := range map[string]struct {
		spec v1beta1.FunctionClassSpec
		want string
	}{
		"Empty": {},
		"Right": {spec: v1beta1.FunctionClassSpec{
			Tolerations: []corev1.Toleration{{Key: "spot", Operator: corev1.TolerationOpExists}}, NodeSelector: map[string]string{"pool": ""},
			PodUser: &v1beta1.PodUser{RunAsUser: new(int64(1<<31 - 1))}, PriorityClassName: "batch", RuntimeClassName: "gvisor",
			ImagePullSecrets: []corev1.LocalObjectReference{{Name: "registry"}},
		}},
		"LabelNotInAccessPolicy": {spec: v1beta1.FunctionClassSpec{Labels: map[string]string{"team": "blue"}}}, // may be listed there later
		"Toleration": {
			spec: v1beta1.FunctionClassSpec{Tolerations: []corev1.Toleration{{Key: "a"}, {Key: "b", Operator: corev1.TolerationOpExists, Value: "c"}}},
			want: "request: spec.tolerations[1].operator: Invalid value",
		},
		"Effect":      {v1beta1.FunctionClassSpec{Tolerations: []corev1.Toleration{{Key: "a", Effect: "Never"}}}, "request: spec.tolerations[0].effect: Unsupported value"},
		"Nodes":       {v1beta1.FunctionClassSpec{NodeSelector: map[string]string{"a b": "c"}}, "request: spec.nodeSelector: Invalid value"},
		"Labels":      {v1beta1.FunctionClassSpec{Labels: map[string]string{"a b": "c"}}, `request: spec.labels: Invalid value: "a b"`},
		"LabelValue":  {v1beta1.FunctionClassSpec{Labels: map[string]string{"a": "b c"}}, `spec.labels: Invalid value: "b c"`},
		"Annotations": {v1beta1.FunctionClassSpec{Annotations: map[string]string{"a b": "c"}}, `request: spec.annotations: Invalid value: "a b"`},
		"Priority":    {v1beta1.FunctionClassSpec{PriorityClassName: "A_B"}, "request: spec.priorityClassName: Invalid value"},
		"Runtime":     {v1beta1.FunctionClassSpec{RuntimeClassName: "A_B"}, "request: spec.runtimeClassName: Invalid value"},
		"Spread": {
			spec: v1beta1.FunctionClassSpec{TopologySpreadConstraints: []corev1.TopologySpreadConstraint{{MaxSkew: 0, TopologyKey: "zone", WhenUnsatisfiable: corev1.DoNotSchedule}}},
			want: "request: spec.topologySpreadConstraints[0].maxSkew: Invalid value",
		},
		"Affinity": {
			spec: v1beta1.FunctionClassSpec{Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{term}},
			}}},
			want: "request: spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].operator: Invalid value",
		},
		"Namespaces": {
			spec: v1beta1.FunctionClassSpec{NamespaceSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Is"}}}},
			want: "request: spec.namespaceSelector.matchExpressions[0].operator: Invalid value",
		},
	} {
		t.Run(name, func(t *testing.T) {
			err := cluster.Create(t.Context(), &v1beta1.FunctionClass{ObjectMeta: metav1.ObjectMeta{Name: "tried"}, Spec: test.spec}, client.DryRunAll)
			if isDenied(err) != (test.want != "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
	class := &v1beta1.FunctionClass{ObjectMeta: metav1.ObjectMeta{Name: "changed"}}
	if err := cluster.Create(t.Context(), class); err != nil {
		t.Fatal(err)
	}
	class.Spec.RuntimeClassName = "A_B"
	if err := cluster.Update(t.Context(), class); !isDenied(err) {
		t.Errorf("a change of an empty class: %v", err)
	}
	if now := webhook.admissions(t, metrics.NotValidated); now != notValidated {
		t.Errorf("%v classes could not be validated", now-notValidated)
	}
	if err := cluster.Delete(t.Context(), class); err != nil {
		t.Error(err)
	}
}
