package desired_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/desired"
	"goless.io/operator/internal/settings"
)

// Pods are evicted from a lost node after LostNodeTimeout, unless the class has a toleration for
// its taints.
func TestLostNode(t *testing.T) {
	const notReady, unreachable = "node.kubernetes.io/not-ready:NoExecute", "node.kubernetes.io/unreachable:NoExecute"
	for name, test := range map[string]struct {
		timeout time.Duration
		class   []corev1.Toleration
		want    string
	}{
		"Default":    {want: notReady + "=30 " + unreachable + "=30"},
		"Setting":    {timeout: 90500 * time.Millisecond, want: notReady + "=91 " + unreachable + "=91"},
		"Class":      {class: []corev1.Toleration{{Key: "spot", Operator: corev1.TolerationOpExists}}, want: "spot:=0 " + notReady + "=30 " + unreachable + "=30"},
		"ClassOther": {class: []corev1.Toleration{{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule}}, want: "node.kubernetes.io/not-ready:NoSchedule=0 " + notReady + "=30 " + unreachable + "=30"},
		"ClassTime": {
			class: []corev1.Toleration{{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: new(int64(600))}},
			want:  notReady + "=600 " + unreachable + "=30",
		},
		"ClassAny": {class: []corev1.Toleration{{Operator: corev1.TolerationOpExists}}, want: ":=0"},
	} {
		t.Run(name, func(t *testing.T) {
			s := settings.Settings{LostNodeTimeout: metav1.Duration{Duration: test.timeout}}
			if len(test.class) > 0 {
				s = s.Of(&v1beta1.FunctionClass{Spec: v1beta1.FunctionClassSpec{Tolerations: test.class}})
			}
			var got []string
			for _, toleration := range desired.Deployment(function(everyField), s, "", binary).Spec.Template.Spec.Tolerations {
				got = append(got, fmt.Sprintf("%s:%s=%d", value(toleration.Key), value(toleration.Effect), value(toleration.TolerationSeconds)))
			}
			if got := strings.Join(got, " "); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}

// The cluster autoscaler may remove a node with pods of functions: an annotation lists all volumes
// on the disk of the node.
func TestEvictableVolumes(t *testing.T) {
	const name = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes"
	scratch := func(medium v1beta1.ScratchMedium) func(*v1beta1.Function) {
		return func(fn *v1beta1.Function) {
			fn.Spec.Scratch = &v1beta1.Scratch{Size: resource.MustParse("1Mi"), Medium: medium}
		}
	}
	own := settings.Settings{}.Of(&v1beta1.FunctionClass{Spec: v1beta1.FunctionClassSpec{Annotations: map[string]string{name: "injected"}}})
	for _, test := range []struct {
		change   func(*v1beta1.Function)
		settings settings.Settings
		binary   *desired.Binary
		want     string
	}{
		{scratch(""), settings.Settings{}, binary, "scratch"},
		{scratch(v1beta1.ScratchOnDisk), settings.Settings{}, nil, "scratch,program,tmp"},
		{scratch(v1beta1.ScratchInMemory), settings.Settings{}, nil, "program,tmp"},
		{scratch(v1beta1.ScratchInMemory), settings.Settings{}, binary, ""},
		{func(*v1beta1.Function) {}, settings.Settings{}, binary, ""},
		{scratch(""), own, binary, "injected"},
	} {
		d := desired.Deployment(function(test.change), test.settings, "", test.binary)
		if got := d.Spec.Template.Annotations[name]; got != test.want {
			t.Errorf("the volumes are %q, want %q", got, test.want)
		}
	}
}

func value[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// Replicas are spread over nodes also in a cluster without zones: the scheduler ignores all
// constraints of a pod on nodes that lack the label of one of them, so the only constraint is on a
// label that each node has. What a class sets replaces the rules of the operator.
func TestSpread(t *testing.T) {
	rack := []corev1.TopologySpreadConstraint{{TopologyKey: "rack", MaxSkew: 1, WhenUnsatisfiable: corev1.ScheduleAnyway}}
	for name, test := range map[string]struct {
		class v1beta1.FunctionClassSpec
		want  string
	}{
		"Default":     {want: "spread over kubernetes.io/hostname, apart by topology.kubernetes.io/zone"},
		"ClassSpread": {class: v1beta1.FunctionClassSpec{TopologySpreadConstraints: rack}, want: "spread over rack"},
		"ClassAffinity": {
			class: v1beta1.FunctionClassSpec{Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{}}},
			want:  "spread over kubernetes.io/hostname",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := settings.Settings{}.Of(&v1beta1.FunctionClass{Spec: test.class})
			pod := desired.Deployment(function(everyField), s, "", binary).Spec.Template.Spec
			var got []string
			for _, constraint := range pod.TopologySpreadConstraints {
				got = append(got, "spread over "+value(constraint.TopologyKey))
			}
			if pod.Affinity != nil && pod.Affinity.PodAntiAffinity != nil {
				for _, term := range pod.Affinity.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution {
					got = append(got, "apart by "+value(term.PodAffinityTerm.TopologyKey))
				}
			}
			if got := strings.Join(got, ", "); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}
