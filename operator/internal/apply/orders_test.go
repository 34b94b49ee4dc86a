package apply_test

import (
	"context"
	"errors"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/builder/buildapi"
	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/apply"
	"goless.io/operator/internal/buildclient"
	"goless.io/operator/internal/observe"
	"goless.io/operator/internal/plan"
)

// unreachable is an API server that does not respond, so that no order reaches the build service.
type unreachable struct{ client.Client }

func (unreachable) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return errors.New("the API server does not answer")
}

// A plan with DeploymentErr lists no orders. The orders that were sent are kept: canceling them
// would discard builds in progress.
func TestOrdersStayWhileUndecided(t *testing.T) {
	orders := buildclient.New(&buildclient.Service{Live: unreachable{}, Client: unreachable{}})
	fn := &v1beta1.Function{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "f"}}
	key := client.ObjectKeyFromObject(fn)
	t.Cleanup(func() { orders.Keep(key, nil) })
	sent := buildapi.Order{Namespace: "team", Source: "package handlers\n"}
	orders.Add(key, "sha256", sent, "", nil)

	applier := &apply.Applier{Orders: orders}
	seen := &observe.Snapshot{Deployment: &appsv1.Deployment{}, Service: &corev1.Service{}}
	outcome := applier.Apply(t.Context(), fn, seen, &plan.Plan{DeploymentErr: errors.New("the environment cannot be read")})
	if outcome.Err == nil {
		t.Error("Outcome.Err does not contain DeploymentErr")
	}
	if !orders.Has(key, "sha256", sent) {
		t.Error("a plan with DeploymentErr has canceled the order")
	}
	applier.Apply(t.Context(), fn, seen, &plan.Plan{})
	if orders.Has(key, "sha256", sent) {
		t.Error("a plan without the order has not canceled it")
	}
}
