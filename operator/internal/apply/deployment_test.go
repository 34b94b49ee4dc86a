package apply_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
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

// recorder is an API server with a Deployment that is not in the cache. It records deletions, and
// whether Deployments are created or changed.
type recorder struct {
	client.Client
	deployment *appsv1.Deployment
	deleted    map[string]client.DeleteOptions
	writes     []string
}

func (r *recorder) Delete(_ context.Context, object client.Object, options ...client.DeleteOption) error {
	r.deleted[object.GetName()] = *(&client.DeleteOptions{}).ApplyOptions(options)
	return nil
}

func (r *recorder) Patch(_ context.Context, object client.Object, patch client.Patch, _ ...client.PatchOption) error {
	if _, ok := object.(*appsv1.Deployment); !ok {
		return nil
	}
	text, err := patch.Data(object)
	if strings.Contains(string(text), `"resourceVersion":"1"`) { // see package ssa
		r.writes = append(r.writes, "create")
		return apierrors.NewConflict(schema.GroupResource{Resource: "deployments"}, object.GetName(), errors.New("it exists"))
	}
	r.writes = append(r.writes, "change")
	return err
}

func (r *recorder) Get(_ context.Context, _ client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	r.deployment.DeepCopyInto(into.(*appsv1.Deployment))
	return nil
}

// A Deployment is deleted only in the version that was read, because its pods may serve in a later
// one. Other objects need not be in that version.
func TestDeletion(t *testing.T) {
	fn := &v1beta1.Function{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "f", UID: "uid"}}
	fn.Spec.Function = "package p\n"
	read := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: "team", Name: name, UID: types.UID(name), ResourceVersion: "7"}
	}
	server := &recorder{deleted: map[string]client.DeleteOptions{}}
	applier := &apply.Applier{Client: server, Orders: buildclient.New(&buildclient.Service{})}
	applier.Apply(t.Context(), fn, &observe.Snapshot{Deployment: &appsv1.Deployment{}, Service: &corev1.Service{}}, &plan.Plan{
		Delete: []client.Object{&appsv1.Deployment{ObjectMeta: read("deployment")}, &corev1.Service{ObjectMeta: read("service")}},
	})
	for name, version := range map[string]*string{"deployment": new("7"), "service": nil} {
		got := server.deleted[name].Preconditions
		if diff := cmp.Diff(&metav1.Preconditions{UID: new(types.UID(name)), ResourceVersion: version}, got); diff != "" {
			t.Errorf("preconditions of %s (-want +got):\n%s", name, diff)
		}
	}
}

// A Deployment whose pods wait for the build is only created. It must not replace the template of a
// Deployment that is not in the cache yet, whose pods may serve.
func TestFirstDeploymentIsOnlyCreated(t *testing.T) {
	fn := &v1beta1.Function{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "f", UID: "uid"}}
	fn.Spec.Function = "package p\n"
	counted, err := metrics.New(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	for awaits, want := range map[bool][]string{true: {"create"}, false: {"create", "change"}} {
		server := &recorder{deployment: &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{
			Namespace: "team", Name: "f", UID: "deployment",
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(fn, v1beta1.GroupVersion.WithKind("Function"))},
		}}}
		applier := &apply.Applier{Client: server, Live: server, Orders: buildclient.New(&buildclient.Service{}), Metrics: counted}
		applier.Apply(t.Context(), fn, &observe.Snapshot{Deployment: &appsv1.Deployment{}, Service: &corev1.Service{}}, &plan.Plan{
			Deployment: desired.Deployment(fn, settings.Settings{}, "", &desired.Binary{}), AwaitsBuild: awaits,
		})
		if diff := cmp.Diff(want, server.writes); diff != "" {
			t.Errorf("awaits the build: %t: writes (-want +got):\n%s", awaits, diff)
		}
	}
}
