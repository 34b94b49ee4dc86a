package check_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/check"
	"goless.io/operator/internal/settings"
)

const source = "package p\n\nimport \"net/http\"\n\nfunc Handler(w http.ResponseWriter, r *http.Request) {}\n"

func TestFunction(t *testing.T) {
	s := settings.Settings{Function: settings.Function{
		MaxReplicas: 5, MaxResources: v1beta1.Amounts{Memory: new(resource.MustParse("1Gi"))},
	}}
	for name, test := range map[string]struct {
		change       func(*v1beta1.Function)
		spec, excess check.Findings
	}{
		"Right":       {change: func(*v1beta1.Function) {}},
		"Name":        {change: func(fn *v1beta1.Function) { fn.Name = "a.b" }, spec: check.Findings{"metadata.name: must not contain dots", "spec.service: a DNS-1035"}},
		"Service":     {change: func(fn *v1beta1.Function) { fn.Spec.Service = "1" }, spec: check.Findings{"spec.service: a DNS-1035"}},
		"Port":        {change: func(fn *v1beta1.Function) { fn.Spec.ServerPort = 70000 }, spec: check.Findings{"spec.serverPort: must be between 1 and 65535"}},
		"AdminPort":   {change: func(fn *v1beta1.Function) { fn.Spec.ServerPort = 9090 }, spec: check.Findings{"spec.serverPort: 9090 is taken by metrics and health checks"}},
		"Replicas":    {change: func(fn *v1beta1.Function) { fn.Spec.Replicas = new(int32(-1)) }, spec: check.Findings{"spec.replicas: must not be negative"}},
		"Timeout":     {change: func(fn *v1beta1.Function) { fn.Spec.Timeout = &metav1.Duration{Duration: 2 * time.Hour} }, spec: check.Findings{"spec.timeout: must be 0s, for none"}},
		"Concurrency": {change: func(fn *v1beta1.Function) { fn.Spec.Concurrency = -1 }, spec: check.Findings{"spec.concurrency: must not be negative"}},
		"Variable":    {change: func(fn *v1beta1.Function) { fn.Spec.Env = []v1beta1.EnvVar{{Name: "SERVER_PORT"}} }, spec: check.Findings{"spec.env[0]: SERVER_PORT is set by Goless"}},
		"Twice":       {change: func(fn *v1beta1.Function) { fn.Spec.Env = []v1beta1.EnvVar{{Name: "A"}, {Name: "A"}} }, spec: check.Findings{"spec.env[1]: A is there already"}},
		"NoSource":    {change: func(fn *v1beta1.Function) { fn.Spec.EnvFrom = []v1beta1.EnvFromSource{{}} }, spec: check.Findings{"spec.envFrom[0]: give exactly one"}},
		"Many":        {change: func(fn *v1beta1.Function) { fn.Spec.Replicas = new(int32(6)) }, excess: check.Findings{"spec.replicas: this cluster allows at most 5"}},
		"Much": {
			change: func(fn *v1beta1.Function) {
				fn.Spec.Resources = &v1beta1.Resources{Limits: v1beta1.Amounts{Memory: new(resource.MustParse("2Gi"))}}
			},
			excess: check.Findings{"spec.resources.limits: 2Gi of memory: this cluster allows at most 1Gi"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			fn := &v1beta1.Function{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: v1beta1.FunctionSpec{Function: source}}
			test.change(fn)
			got := check.Function(fn, s)
			if !begin(got.Spec, test.spec) || !begin(got.Excess, test.excess) || got.Source != nil {
				t.Errorf("got %q, %q, %v", got.Spec, got.Excess, got.Source)
			}
		})
	}
}

// begin tells whether the findings are those that are told, each with its beginning.
func begin(got, want check.Findings) bool {
	if len(got) != len(want) {
		return false
	}
	for i := range got {
		if !strings.HasPrefix(got[i], want[i]) {
			return false
		}
	}
	return true
}

func TestDiagnostics(t *testing.T) {
	fn := &v1beta1.Function{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: v1beta1.FunctionSpec{Function: "package p\n"}}
	got, omitted := check.Function(fn, settings.Settings{}).Diagnostics()
	want := []v1beta1.Diagnostic{{File: "handler.go", Line: 1, Column: 9, Message: "there is no Handler, add: func Handler(http.ResponseWriter, *http.Request)"}}
	if diff := cmp.Diff(want, got); diff != "" || omitted != 0 {
		t.Errorf("%d omitted: %s", omitted, diff)
	}
}
