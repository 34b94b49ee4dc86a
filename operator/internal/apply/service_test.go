package apply_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/apply"
	"goless.io/operator/internal/buildclient"
	"goless.io/operator/internal/desired"
	"goless.io/operator/internal/metrics"
	"goless.io/operator/internal/observe"
	"goless.io/operator/internal/plan"
	"goless.io/operator/internal/settings"
)

// refusing is an API server that rejects changes to Deployments if refuses is set, and stores the
// patch of a Service in service.
type refusing struct {
	client.Client
	refuses bool
	service string
}

func (r *refusing) Patch(_ context.Context, object client.Object, patch client.Patch, _ ...client.PatchOption) error {
	if _, ok := object.(*appsv1.Deployment); ok && r.refuses {
		return errors.New("refused")
	}
	if _, ok := object.(*corev1.Service); ok {
		text, err := patch.Data(object)
		r.service = string(text)
		return err
	}
	return nil
}

// If a function no longer sleeps, its Service keeps the annotation that makes the activator receive
// the requests until the Deployment is applied. If its rollout is no longer verified, it keeps the
// limits.
func TestAnnotationsLeaveLast(t *testing.T) {
	fn := &v1beta1.Function{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "f", UID: "uid"}}
	fn.Spec.Function, fn.Spec.Replicas = "package p\n", new(int32(1))
	owned := func(uid string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: "team", Name: "f", UID: types.UID(uid), OwnerReferences: []metav1.OwnerReference{
			*metav1.NewControllerRef(fn, v1beta1.GroupVersion.WithKind("Function")),
		}}
	}
	deployment := func() *plan.Plan {
		return &plan.Plan{Deployment: desired.Deployment(fn, settings.Settings{}, "", &desired.Binary{}), Service: desired.Service(fn)}
	}
	starting, undecided, asleep := deployment(), deployment(), deployment()
	starting.DeploymentDelay = 1
	undecided.Deployment = nil
	asleep.Service.WithAnnotations(map[string]string{v1beta1.SleepAfterAnnotation: "30s"})
	counted, err := metrics.New(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		plan    *plan.Plan
		refuses bool
		want    string // the value of the annotation; empty for none
	}{
		"Changed":   {deployment(), false, ""},
		"Refused":   {deployment(), true, "5m0s"},
		"Starting":  {starting, false, "5m0s"},
		"Undecided": {undecided, false, "5m0s"},
		"Sleeps":    {asleep, true, "30s"},
	} {
		server := &refusing{refuses: test.refuses}
		live := &corev1.Service{ObjectMeta: owned("service")}
		live.Annotations = map[string]string{v1beta1.SleepAfterAnnotation: "5m0s", v1beta1.VerifyLimitsAnnotation: "limits"}
		applier := &apply.Applier{Client: server, Orders: buildclient.New(&buildclient.Service{}), Metrics: counted}
		applier.Apply(t.Context(), fn, &observe.Snapshot{Deployment: &appsv1.Deployment{ObjectMeta: owned("deployment")}, Service: live}, test.plan)
		got := ""
		if _, rest, ok := strings.Cut(server.service, `"goless.io/sleep-after":"`); ok {
			got, _, _ = strings.Cut(rest, `"`)
		}
		if keeps := strings.Contains(server.service, `"goless.io/verify-limits":"limits"`); keeps != (test.want != "") {
			t.Errorf("%s: it keeps the limits of a verification: %t", name, keeps)
		}
		if server.service == "" || got != test.want {
			t.Errorf("%s: annotation %q, want %q: %s", name, got, test.want, server.service)
		}
	}
}
