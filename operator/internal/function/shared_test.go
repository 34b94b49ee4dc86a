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

// The order is sent at once, and the Deployment is created while the source compiles.
func TestSharedStartsWhileItCompiles(t *testing.T) {
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
	early := await(t, fn, fn.Name, &appsv1.Deployment{}, awaitsBuild)
	close(hold)
	deployment := await(t, fn, fn.Name, &appsv1.Deployment{}, func(d *appsv1.Deployment) bool { return ownedByApply(d) && !awaitsBuild(d) })
	if deployment.UID != early.UID || deployment.Generation != early.Generation {
		t.Error("the build has changed the Deployment")
	}
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

// The Deployment of a first source that does not compile is deleted, and is not created again. So
// is one whose source changes before it has compiled.
func TestSharedFirstBuildFails(t *testing.T) {
	hold := make(chan struct{})
	service.Set(t, func(o buildapi.Order) buildtest.Reply {
		switch {
		case strings.Contains(o.Source, "// works"):
			return buildtest.Reply{Report: buildtest.Built}
		case strings.Contains(o.Source, "// waits"):
			return buildtest.Reply{Hold: make(chan struct{})}
		}
		return buildtest.Reply{Hold: hold, Report: `{"reason":"CompileFailed","diagnostics":[{"file":"handler.go","line":7,"message":"undefined: x"}]}`}
	})
	fn := create(t, "first", shared)
	early := await(t, fn, fn.Name, &appsv1.Deployment{}, awaitsBuild)
	close(hold)
	awaitReady(t, fn, v1beta1.ReasonCompileFailed)
	eventually(t, "Deployment deleted", func() bool { return !exists(t, fn, fn.Name, &appsv1.Deployment{}) })
	change(t, fn, func(fn *v1beta1.Function) { fn.Spec.Replicas = new(int32(2)) })
	awaitReady(t, fn, v1beta1.ReasonCompileFailed)
	if exists(t, fn, fn.Name, &appsv1.Deployment{}) {
		t.Error("the Deployment was created again")
	}
	change(t, fn, func(fn *v1beta1.Function) { fn.Spec.Function += "// waits\n" })
	second := await(t, fn, fn.Name, &appsv1.Deployment{}, awaitsBuild)
	change(t, fn, func(fn *v1beta1.Function) { fn.Spec.Function += "// works\n" })
	third := await(t, fn, fn.Name, &appsv1.Deployment{}, func(d *appsv1.Deployment) bool { return !awaitsBuild(d) })
	if early.UID == second.UID || second.UID == third.UID {
		t.Error("the Deployment was not deleted when its source failed to compile or was changed")
	}
	if desired.RevisionOf(&third.Spec.Template) != desired.LatestRevision(get(t, fn)) {
		t.Errorf("the Deployment has the labels %v", third.Spec.Template.Labels)
	}
	serve(t, fn)
}

// awaitsBuild reports whether a Deployment was created before its binary was compiled.
func awaitsBuild(d *appsv1.Deployment) bool { return d.Labels["goless.io/awaits-build"] != "" }

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
