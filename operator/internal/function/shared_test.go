package function_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/builder/buildapi"
	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/apiservertest"
	"goless.io/operator/internal/buildclient/buildtest"
	"goless.io/operator/internal/desired"
)

// service is a fake build service. End-to-end tests use the real one.
var service *buildtest.Service

// serviceKeys returns the keys in the Secret that the service would mount.
func serviceKeys() (*buildapi.Keys, error) {
	var secret corev1.Secret
	if err := cluster.Get(context.Background(), client.ObjectKey{Namespace: "goless-system", Name: "goless-build"}, &secret); err != nil {
		return nil, err
	}
	return buildapi.NewKeys(secret.Data["seed"])
}

func shared(fn *v1beta1.Function) { fn.Spec.Build = &v1beta1.BuildSpec{Strategy: v1beta1.BuildShared} }

// replies sets the reply of the service to all orders.
func replies(t *testing.T, reply buildtest.Reply) {
	t.Helper()
	service.Set(t, func(buildapi.Order) buildtest.Reply { return reply })
}

// The order is sent at once. The Deployment is created when the binary is built.
func TestSharedCompilesFirst(t *testing.T) {
	hold := make(chan struct{})
	replies(t, buildtest.Reply{Hold: hold, Report: buildtest.Built})
	fn := create(t, "first", shared)
	await(t, fn, "svc", &corev1.Service{}, nil)
	await(t, fn, fn.Name+"-"+desired.Revision(hello), &corev1.ConfigMap{}, nil)
	ready := awaitReady(t, fn, v1beta1.ReasonBuilding)
	if !strings.Contains(ready.Message, "waiting for the build service to compile the source") {
		t.Errorf("message of Ready: %q", ready.Message)
	}
	eventually(t, "order received", func() bool { return len(service.Orders(fn.Namespace)) == 1 })
	if exists(t, fn, fn.Name, &appsv1.Deployment{}) {
		t.Error("the Deployment exists before the binary is built")
	}
	close(hold)
	deployment := await(t, fn, fn.Name, &appsv1.Deployment{}, ownedByApply)
	pod := deployment.Spec.Template.Spec
	if len(pod.InitContainers)+len(pod.Volumes) > 0 || len(pod.Containers) != 1 {
		t.Errorf("unexpected pod %+v", pod)
	}
	serve(t, fn)
	order := service.Orders(fn.Namespace)[0]
	if got := variable(deployment, "FUNCTION_BINARY"); got != service.Key(order) {
		t.Errorf("unexpected binary %q", got)
	}
	if want := (buildapi.Order{Namespace: fn.Namespace, Source: hello, Memory: 768 << 20}); cmp.Diff(want, order) != "" {
		t.Errorf("unexpected order %+v", order)
	}
	status := get(t, fn).Status
	if status.Build == nil || status.Build.Duration != "80ms" || !has(t, fn, v1beta1.ConditionBuilt) {
		t.Errorf("status is %+v", status)
	}
	if n := len(service.Orders(fn.Namespace)); n != 1 {
		t.Errorf("%d orders, want 1", n)
	}
}

// No order is left when a Function is deleted, at any time, or when its source changes.
func TestSharedNothingIsLeft(t *testing.T) {
	replies(t, buildtest.Reply{Hold: make(chan struct{})})
	namespace := apiservertest.NewNamespace(t, cluster)
	for i := range 10 {
		fn := create(t, fmt.Sprintf("gone%d", i), func(fn *v1beta1.Function) {
			shared(fn)
			fn.Namespace, fn.Spec.Service = namespace, ""
		})
		if i%2 == 0 {
			eventually(t, "order received", func() bool { return service.Open(namespace) > 0 })
		}
		if err := cluster.Delete(t.Context(), fn); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "no open orders", func() bool { return service.Open(namespace) == 0 })
	last := create(t, "last", func(fn *v1beta1.Function) { shared(fn); fn.Namespace = namespace })
	eventually(t, "one open order", func() bool { return service.Open(namespace) == 1 })
	sent := len(service.Orders(namespace))
	change(t, last, func(fn *v1beta1.Function) { fn.Spec.Function += "// next\n" })
	eventually(t, "one open order, for the next source", func() bool {
		return len(service.Orders(namespace)) > sent && service.Open(namespace) == 1
	})
}

// variable returns the value of an environment variable of the function.
func variable(d *appsv1.Deployment, name string) string {
	for _, v := range d.Spec.Template.Spec.Containers[0].Env {
		if v.Name == name {
			return v.Value
		}
	}
	return ""
}
