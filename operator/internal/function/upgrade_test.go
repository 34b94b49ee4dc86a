package function_test

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/settings"
)

// A new version of the operator has other images, and other settings.
func TestUpgrade(t *testing.T) {
	namespace := newNamespace(t)
	in := func(change func(*v1beta1.Function)) func(*v1beta1.Function) {
		return func(fn *v1beta1.Function) {
			fn.Namespace = namespace
			change(fn)
			fn.Spec.Service = ""
		}
	}
	leave := func(*v1beta1.Function) {}
	plain := create(t, "plain", in(leave))
	rich := create(t, "rich", in(everyField))
	changed := create(t, "changed", in(leave))
	asked := create(t, "asked", in(leave))
	forged := create(t, "forged", in(leave))
	refused := create(t, "refused", in(leave))
	broken := create(t, "broken", in(leave))
	for _, fn := range []*v1beta1.Function{plain, rich, changed, asked, forged, refused} {
		serve(t, fn)
	}
	await(t, broken, broken.Name, &appsv1.Deployment{}, ownedByApply)
	change(t, refused, func(fn *v1beta1.Function) { fn.Spec.Function = "package handlers" })
	awaitReady(t, refused, v1beta1.ReasonInvalidSource)

	log := replaceOperator(t, namespace, "")
	awaitUpgrade(t, broken) // that it did not build may be what the new version mends
	for _, write := range log.all() {
		if !strings.HasSuffix(write, "/deployments/"+broken.Name) && !strings.Contains(write, "/events") {
			t.Errorf("the new version wrote: %s", write)
		}
	}

	// What is no reason to restart pods is none now.
	for _, fn := range []*v1beta1.Function{plain, rich, changed, asked, forged, refused} {
		change(t, fn, func(fn *v1beta1.Function) { fn.Spec.Replicas = new(int32(4)) })
		await(t, fn, fn.Name, &appsv1.Deployment{}, func(d *appsv1.Deployment) bool { return *d.Spec.Replicas == 4 })
		notUpgraded(t, fn)
	}

	// What restarts them anyway takes the new images along.
	change(t, changed, func(fn *v1beta1.Function) { fn.Spec.Concurrency = 2 })
	awaitUpgrade(t, changed)
	change(t, asked, func(fn *v1beta1.Function) { fn.Annotations = map[string]string{"goless.io/upgrade": "now"} })
	awaitUpgrade(t, asked)
	deployment := await(t, forged, forged.Name, &appsv1.Deployment{}, nil)
	deployment.Spec.Template.Spec.InitContainers[0].Image = "evil"
	overwrite(t, deployment)
	await(t, forged, forged.Name, deployment, func(d *appsv1.Deployment) bool { return d.Spec.Template.Spec.InitContainers[0].Image != "evil" })

	replaceOperator(t, namespace, settings.Always)
	for _, fn := range []*v1beta1.Function{plain, rich, refused} {
		awaitUpgrade(t, fn)
	}
}

// The first versions of the operator left no hashes on what they made.
func TestUpgradeOfUnhashed(t *testing.T) {
	fn := create(t, "ancient", everyField)
	serve(t, fn)
	replaceOperatorWith(t, func() {
		deployment := await(t, fn, fn.Name, &appsv1.Deployment{}, nil)
		old, err := appsv1ac.ExtractDeployment(deployment, "goless-operator")
		if err != nil {
			t.Fatal(err)
		}
		delete(old.Labels, "goless.io/wanted")
		delete(old.Spec.Template.Labels, "goless.io/template")
		env := old.Spec.Template.Spec.Containers[0].Env
		for i := range env {
			if *env[i].Name == "REQUEST_TIMEOUT" {
				env[i].WithName("GOMEMLIMIT").WithValue("230MiB")
			}
		}
		if err := cluster.Apply(t.Context(), old, client.FieldOwner("goless-operator")); err != nil {
			t.Fatal(err)
		}
	}, fn.Namespace, "")
	serve(t, fn)
	change(t, fn, func(fn *v1beta1.Function) { fn.Spec.Replicas = new(int32(4)) })
	deployment := await(t, fn, fn.Name, &appsv1.Deployment{}, func(d *appsv1.Deployment) bool { return *d.Spec.Replicas == 4 })
	notUpgraded(t, fn)
	deployment.Spec.Template.Spec.Containers[0].Image = "evil"
	overwrite(t, deployment)
	await(t, fn, fn.Name, deployment, func(d *appsv1.Deployment) bool { return d.Spec.Template.Spec.Containers[0].Image != "evil" })
}

// replaceOperator puts an operator of another version, for one namespace, in the
// place of the one that runs, and returns when it has seen that namespace. At the
// end of the test all is as it was.
func replaceOperator(t *testing.T, namespace string, rollout settings.Rollout) *writeLog {
	t.Helper()
	return replaceOperatorWith(t, func() {}, namespace, rollout)
}

// replaceOperatorWith does something while no operator runs.
func replaceOperatorWith(t *testing.T, meanwhile func(), namespace string, rollout settings.Rollout) *writeLog {
	t.Helper()
	log := &writeLog{}
	next := configured
	next.Images = settings.Images{Builder: "example/builder:2", Function: "example/launch:2"}
	next.Build.Timeout = metav1.Duration{Duration: 7}
	next.Namespaces = []string{namespace}
	next.Rollout = rollout
	var all v1beta1.FunctionList
	if err := cluster.List(t.Context(), &all, client.InNamespace(namespace)); err != nil {
		t.Fatal(err)
	}
	before := reconciles(t)
	stopOperator()
	meanwhile()
	exchangeOperator(t, next, log)
	eventually(t, "the new version has looked at everything", func() bool { return reconciles(t) >= before+float64(len(all.Items)) })
	return log
}

// serve plays the Deployment controller until a Function is ready.
func serve(t *testing.T, fn *v1beta1.Function) {
	t.Helper()
	deployment := await(t, fn, fn.Name, &appsv1.Deployment{}, ownedByApply)
	eventually(t, fn.Name+" is ready", func() bool {
		if err := cluster.Get(t.Context(), client.ObjectKeyFromObject(fn), deployment); err != nil {
			t.Fatal(err)
		}
		before := client.MergeFrom(deployment.DeepCopy())
		n := *deployment.Spec.Replicas
		deployment.Status = appsv1.DeploymentStatus{
			ObservedGeneration: deployment.Generation, Replicas: n, UpdatedReplicas: n, ReadyReplicas: n, AvailableReplicas: n,
		}
		if err := cluster.Status().Patch(t.Context(), deployment, before); err != nil {
			t.Fatal(err)
		}
		return has(t, fn, v1beta1.ConditionReady)
	})
}

func notUpgraded(t *testing.T, fn *v1beta1.Function) {
	t.Helper()
	deployment := await(t, fn, fn.Name, &appsv1.Deployment{}, nil)
	if got := deployment.Spec.Template.Spec.InitContainers[0].Image; got != "example/builder:1" {
		t.Errorf("%s is built by %s", fn.Name, got)
	}
}

func awaitUpgrade(t *testing.T, fn *v1beta1.Function) {
	t.Helper()
	await(t, fn, fn.Name, &appsv1.Deployment{}, func(d *appsv1.Deployment) bool {
		return d.Spec.Template.Spec.InitContainers[0].Image == "example/builder:2"
	})
}
