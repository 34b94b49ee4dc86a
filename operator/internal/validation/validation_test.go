package validation_test

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/settings"
	"goless.io/operator/internal/validation"
)

const source = "package p\n\nimport \"net/http\"\n\nfunc Handler(w http.ResponseWriter, r *http.Request) {}\n"

func TestFunction(t *testing.T) {
	s := settings.Settings{Function: settings.Function{
		MaxReplicas: 5, MaxResources: v1beta1.Amounts{Memory: new(resource.MustParse("1Gi"))},
	}}
	for name, test := range map[string]struct {
		change       func(*v1beta1.Function)
		spec, excess []string
	}{
		"Right": {change: func(*v1beta1.Function) {}},
		"DrainTwice": {
			change: func(fn *v1beta1.Function) {
				fn.Spec.DrainSeconds, fn.Spec.Env = new(int32(0)), []v1beta1.EnvVar{{Name: "DRAIN_TIMEOUT", Value: "1s"}}
			},
			spec: []string{"spec.drainSeconds: Forbidden: spec.env sets DRAIN_TIMEOUT, which is the same setting; remove one of them"},
		},
		"Scratch":         {change: scratch("1023Mi", "Disk")},
		"LargeScratch":    {change: scratch("1Gi", ""), excess: []string{`spec.scratch.size: Invalid value: "1Gi": must be less than spec.resources.limits.ephemeral-storage (1Gi), because files in /tmp`}},
		"ScratchInMemory": {change: scratch("256Mi", "Memory"), excess: []string{`spec.scratch.size: Invalid value: "256Mi": must be less than spec.resources.limits.memory (256Mi), because files in /tmp`}},
		"ScratchInMuchMemory": {change: func(fn *v1beta1.Function) {
			scratch("256Mi", "Memory")(fn)
			fn.Spec.Resources = &v1beta1.Resources{Limits: v1beta1.Amounts{Memory: new(resource.MustParse("512Mi"))}}
		}},
		"Inverted": {
			change: func(fn *v1beta1.Function) {
				fn.Spec.Resources = &v1beta1.Resources{Requests: v1beta1.Amounts{Memory: new(resource.MustParse("2Mi"))}, Limits: v1beta1.Amounts{Memory: new(resource.MustParse("1Mi"))}}
			},
			spec: []string{`spec.resources.requests.memory: Invalid value: "2Mi": exceeds the limit of 1Mi`},
		},
		"CPUOfLimit": {
			change: func(fn *v1beta1.Function) {
				fn.Spec.Resources = &v1beta1.Resources{Limits: v1beta1.Amounts{CPU: new(resource.MustParse("0.5"))}}
				fn.Spec.Scaling = &v1beta1.Scaling{CPU: new(resource.MustParse("500m"))}
			},
			spec: []string{`spec.scaling.cpu: Invalid value: "500m": must be less than spec.resources.limits.cpu (500m)`},
		},
		"Sleeps":       {change: scaling(v1beta1.Scaling{Min: new(int32(0))})},
		"ScalesToMany": {change: scaling(v1beta1.Scaling{Max: new(int32(6))}), excess: []string{"spec.scaling.max: Invalid value: 6: this cluster allows at most 5"}},
		"KeepsMany":    {change: scaling(v1beta1.Scaling{Min: new(int32(6))}), excess: []string{"spec.scaling.min: Invalid value: 6: this cluster allows at most 5"}},
		"MinOfWindow":  {change: scaling(v1beta1.Scaling{Min: new(int32(6)), Max: new(int32(7))}), excess: []string{"spec.scaling.max: Invalid value: 7: this cluster allows at most 5"}},
		"Many":         {change: func(fn *v1beta1.Function) { fn.Spec.Replicas = new(int32(6)) }, excess: []string{"spec.replicas: Invalid value: 6: this cluster allows at most 5"}},
		"Much": {
			change: func(fn *v1beta1.Function) {
				fn.Spec.Resources = &v1beta1.Resources{Limits: v1beta1.Amounts{Memory: new(resource.MustParse("2Gi"))}}
			},
			excess: []string{`spec.resources.limits.memory: Invalid value: "2Gi": this cluster allows at most 1Gi`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			fn := &v1beta1.Function{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: v1beta1.FunctionSpec{Function: source}}
			test.change(fn)
			got := validation.Function(fn, s)
			if !hasPrefixes(got.Spec, test.spec) || !hasPrefixes(got.LimitErrors, test.excess) || got.Source != nil {
				t.Errorf("got %q, %q, %v", got.Spec, got.LimitErrors, got.Source)
			}
		})
	}
}

func scaling(s v1beta1.Scaling) func(*v1beta1.Function) {
	return func(fn *v1beta1.Function) { fn.Spec.Replicas, fn.Spec.Scaling = new(int32(7)), &s } // scaling overrides replicas
}

func scratch(size string, medium v1beta1.ScratchMedium) func(*v1beta1.Function) {
	return func(fn *v1beta1.Function) {
		fn.Spec.Scratch = &v1beta1.Scratch{Size: resource.MustParse(size), Medium: medium}
	}
}

// hasPrefixes reports whether got contains as many errors as want, each with the wanted prefix.
func hasPrefixes(got field.ErrorList, want []string) bool {
	if len(got) != len(want) {
		return false
	}
	for i := range got {
		if !strings.HasPrefix(got[i].Error(), want[i]) {
			return false
		}
	}
	return true
}

func TestDiagnostics(t *testing.T) {
	fn := &v1beta1.Function{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: v1beta1.FunctionSpec{Function: "package p\n"}}
	got, omitted := validation.Function(fn, settings.Settings{}).Diagnostics()
	want := []v1beta1.Diagnostic{{File: "handler.go", Line: 1, Column: 9, Message: "no Handler declared; add: func Handler(http.ResponseWriter, *http.Request)"}}
	if diff := cmp.Diff(want, got); diff != "" || omitted != 0 {
		t.Errorf("%d omitted: %s", omitted, diff)
	}
}

// There are default limits, and settings can raise them.
func TestDefaultLimits(t *testing.T) {
	fn := &v1beta1.Function{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	fn.Spec.Replicas = new(int32(101))
	fn.Spec.Resources = &v1beta1.Resources{Limits: v1beta1.Amounts{Memory: new(resource.MustParse("5Gi"))}}
	want := []string{"spec.replicas: Invalid value: 101: this cluster allows at most 100", `spec.resources.limits.memory: Invalid value: "5Gi": this cluster allows at most 4Gi`}
	if got := validation.Spec(fn, settings.Settings{}).LimitErrors; !hasPrefixes(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	lifted := settings.Settings{Function: settings.Function{MaxReplicas: math.MaxInt32, MaxResources: v1beta1.Amounts{Memory: new(resource.MustParse("1P"))}}}
	if got := validation.Spec(fn, lifted).LimitErrors; len(got) > 0 {
		t.Errorf("with higher maximums: %q", got)
	}
}

// Only the build service compiles tests.
func TestTests(t *testing.T) {
	for strategy, want := range map[v1beta1.BuildStrategy]int{v1beta1.BuildShared: 0, "": 0, v1beta1.BuildInPod: 1} {
		fn := &v1beta1.Function{Spec: v1beta1.FunctionSpec{Function: source, Build: &v1beta1.BuildSpec{Test: true, Strategy: strategy}}}
		if got := validation.Tests(fn, settings.Settings{}); len(got) != want {
			t.Errorf("%q: %v", strategy, got)
		}
	}
}
