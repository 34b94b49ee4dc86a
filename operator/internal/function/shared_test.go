package function_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/builder/remote"
	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/build/buildtest"
	"goless.io/operator/internal/desired"
)

// service stands for the build service. The real one is in the tests on the real
// cluster.
var service *buildtest.Service

// serviceKeys are what the service reads from the mounted Secret.
func serviceKeys() (*remote.Keys, error) {
	var secret corev1.Secret
	if err := cluster.Get(context.Background(), client.ObjectKey{Namespace: "goless-system", Name: "goless-build"}, &secret); err != nil {
		return nil, err
	}
	return remote.NewKeys(secret.Data["seed"])
}

const (
	failing = `{"reason":"CompileFailed","message":"no","diagnostics":[{"file":"handler.go","line":7,"column":2,"message":"undefined: x"}]}`
	unlucky = `{"reason":"BuildFailed","message":"no space left"}`
)

func shared(fn *v1beta1.Function) { fn.Spec.Build = &v1beta1.BuildSpec{Strategy: v1beta1.BuildShared} }

// answers makes the service answer for the sources that contain a text.
func answers(t *testing.T, text string, reply buildtest.Reply) {
	t.Helper()
	service.Set(t, func(o remote.Order) buildtest.Reply {
		if strings.Contains(o.Source, text) {
			return reply
		}
		return buildtest.Reply{Report: buildtest.Built}
	})
}

// The order goes out at once, and pods are made when it is known that they will have
// something to run.
func TestSharedCompilesFirst(t *testing.T) {
	hold := make(chan struct{})
	answers(t, "", buildtest.Reply{Hold: hold, Report: buildtest.Built})
	fn := create(t, "first", shared)
	await(t, fn, "svc", &corev1.Service{}, nil)
	await(t, fn, fn.Name+"-"+desired.Revision(hello), &corev1.ConfigMap{}, nil)
	ready := awaitReady(t, fn, v1beta1.ReasonBuilding)
	if !strings.Contains(ready.Message, "waiting for the build service to compile the source") {
		t.Errorf("Ready says %q", ready.Message)
	}
	eventually(t, "the order arrives", func() bool { return len(service.Orders(fn.Namespace)) == 1 })
	if exists(t, fn, fn.Name, &appsv1.Deployment{}) {
		t.Error("there is a Deployment before there is a program")
	}
	close(hold)
	deployment := await(t, fn, fn.Name, &appsv1.Deployment{}, ownedByApply)
	pod := deployment.Spec.Template.Spec
	if len(pod.InitContainers)+len(pod.Volumes) > 0 || len(pod.Containers) != 1 {
		t.Errorf("the pod is %+v", pod)
	}
	serve(t, fn)
	order := service.Orders(fn.Namespace)[0]
	if got := variable(deployment, "FUNCTION_BINARY"); got != service.Key(order) {
		t.Errorf("the binary is %q", got)
	}
	if want := (remote.Order{Namespace: fn.Namespace, Source: hello, Memory: 768 << 20}); cmp.Diff(want, order) != "" {
		t.Errorf("the order is %+v", order)
	}
	status := get(t, fn).Status
	if status.Build == nil || status.Build.Duration != "80ms" || !has(t, fn, v1beta1.ConditionBuilt) {
		t.Errorf("status is %+v", status)
	}
	if n := len(service.Orders(fn.Namespace)); n != 1 {
		t.Errorf("%d orders", n)
	}
}

// A source that does not compile makes no pod. What served goes on, and the rest of
// the spec holds for it.
func TestSharedCompileFails(t *testing.T) {
	answers(t, "broken", buildtest.Reply{Report: failing})
	fn := create(t, "fails", shared)
	serve(t, fn)
	before := await(t, fn, fn.Name, &appsv1.Deployment{}, nil)
	change(t, fn, func(fn *v1beta1.Function) { fn.Spec.Function += "// broken\n" })
	ready := awaitReady(t, fn, v1beta1.ReasonCompileFailed)
	if !strings.Contains(ready.Message, "handler.go:7:2: undefined: x; revision "+desired.Revision(hello)+" goes on serving") || !has(t, fn, v1beta1.ConditionStalled) {
		t.Errorf("Ready is %+v", ready)
	}
	if d := get(t, fn).Status.Build.Diagnostics; len(d) != 1 || d[0].Line != 7 {
		t.Errorf("diagnostics are %v", d)
	}
	change(t, fn, func(fn *v1beta1.Function) { fn.Spec.Replicas, fn.Spec.Service = new(int32(3)), "other" })
	after := await(t, fn, fn.Name, &appsv1.Deployment{}, func(d *appsv1.Deployment) bool { return *d.Spec.Replicas == 3 })
	await(t, fn, "other", &corev1.Service{}, nil)
	if diff := cmp.Diff(before.Spec.Template, after.Spec.Template); diff != "" {
		t.Errorf("the pods have changed:\n%s", diff)
	}
	after.Spec.Template.Spec.Containers[0].Image = "evil"
	overwrite(t, after)
	await(t, fn, fn.Name, after, func(d *appsv1.Deployment) bool { return d.Spec.Template.Spec.Containers[0].Image != "evil" })
	if n := len(service.Orders(fn.Namespace)); n > 3 {
		t.Errorf("%d orders for two sources, one of them after a loss", n)
	}
	change(t, fn, func(fn *v1beta1.Function) { fn.Spec.Function = hello + "// mended\n" })
	await(t, fn, fn.Name, &appsv1.Deployment{}, func(d *appsv1.Deployment) bool {
		return desired.RevisionOf(&d.Spec.Template) == desired.Revision(hello+"// mended\n") && *d.Spec.Replicas == 3
	})
	awaitReady(t, fn, v1beta1.ReasonRollingOut)
}

// What is no change of the source needs no build, nor a service at all.
func TestSharedWithoutService(t *testing.T) {
	fn := create(t, "lonely", shared)
	serve(t, fn)
	service.Set(t, func(remote.Order) buildtest.Reply { return buildtest.Reply{Status: 503} })
	key := variable(await(t, fn, fn.Name, &appsv1.Deployment{}, nil), "FUNCTION_BINARY")
	change(t, fn, func(fn *v1beta1.Function) { fn.Spec.Env = []v1beta1.EnvVar{{Name: "A", Value: "b"}} })
	await(t, fn, fn.Name, &appsv1.Deployment{}, func(d *appsv1.Deployment) bool {
		return variable(d, "A") == "b" && variable(d, "FUNCTION_BINARY") == key
	})
	serve(t, fn)
	change(t, fn, func(fn *v1beta1.Function) { fn.Spec.Function += "// next\n" })
	var first metav1.Condition
	eventually(t, "Ready says what is the matter", func() bool {
		first = awaitReady(t, fn, v1beta1.ReasonBuilding)
		return strings.Contains(first.Message, "the build service is not available since 20")
	})
	if !has(t, fn, v1beta1.ConditionAvailable) || !strings.Contains(first.Message, "it has too much to do") {
		t.Errorf("Ready is %+v", first)
	}
	tries := len(service.Orders(fn.Namespace))
	eventually(t, "it is tried again", func() bool { return len(service.Orders(fn.Namespace)) > tries+1 })
	if now := awaitReady(t, fn, v1beta1.ReasonBuilding); now != first {
		t.Errorf("Ready was %+v, is %+v", first, now)
	}
	service.Set(t, func(remote.Order) buildtest.Reply { return buildtest.Reply{Report: buildtest.Built} })
	await(t, fn, fn.Name, &appsv1.Deployment{}, func(d *appsv1.Deployment) bool {
		return variable(d, "FUNCTION_BINARY") != key
	})
}

// With everything ready, a new operator and a new service are no reason to do
// anything. Where replicas are missing, what they wait for is had anew.
func TestSharedAtRest(t *testing.T) {
	fn := create(t, "rests", shared)
	serve(t, fn)
	orders := len(service.Orders(fn.Namespace))
	deployment := await(t, fn, fn.Name, &appsv1.Deployment{}, nil)
	t.Cleanup(func() { service.Upgrade("") })
	service.Upgrade("2")
	log := replaceOperator(t, fn.Namespace, "")
	if now := len(service.Orders(fn.Namespace)); now != orders {
		t.Errorf("%d orders, before there were %d", now, orders)
	}
	if all := about(log.all(), fn); len(all) > 0 {
		t.Errorf("the new operator wrote %v", all)
	}
	patch := client.MergeFrom(deployment.DeepCopy())
	deployment.Status.ReadyReplicas, deployment.Status.AvailableReplicas = 0, 0
	if err := cluster.Status().Patch(t.Context(), deployment, patch); err != nil {
		t.Fatal(err)
	}
	key := variable(deployment, "FUNCTION_BINARY")
	await(t, fn, fn.Name, deployment, func(d *appsv1.Deployment) bool { return variable(d, "FUNCTION_BINARY") != key })
	serve(t, fn)
}

// What the service has lost and an older revision needs is ordered as well.
func TestSharedOlderRevision(t *testing.T) {
	fn := create(t, "older", shared)
	serve(t, fn)
	next := hello + "// next\n"
	set := replicaSet(t, fn)
	change(t, fn, func(fn *v1beta1.Function) { fn.Spec.Function = next })
	await(t, fn, fn.Name, &appsv1.Deployment{}, func(d *appsv1.Deployment) bool { return desired.RevisionOf(&d.Spec.Template) == desired.Revision(next) })
	ofOlder := func() int {
		return len(slices.DeleteFunc(service.Orders(fn.Namespace), func(o remote.Order) bool { return o.Source != hello }))
	}
	before := ofOlder()
	patch := client.MergeFrom(set.DeepCopy())
	set.Status.ReadyReplicas, set.Status.AvailableReplicas = 0, 0
	if err := cluster.Status().Patch(t.Context(), set, patch); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the older source is ordered", func() bool { return ofOlder() > before })
}

// What serves beside a source that does not compile can start again after the service
// has been upgraded.
func TestSharedServesOnAfterUpgrade(t *testing.T) {
	answers(t, "broken", buildtest.Reply{Report: failing})
	fn := create(t, "survives", func(fn *v1beta1.Function) { shared(fn); fn.Spec.Env = []v1beta1.EnvVar{{Name: "A", Value: "b"}} })
	serve(t, fn)
	change(t, fn, func(fn *v1beta1.Function) { fn.Spec.Function, fn.Spec.Env = hello+"// broken\n", nil })
	awaitReady(t, fn, v1beta1.ReasonCompileFailed)
	before := await(t, fn, fn.Name, &appsv1.Deployment{}, nil)
	t.Cleanup(func() { service.Upgrade("") })
	service.Upgrade("2")
	lacks(t, fn, 0)
	key := service.Key(remote.Order{Namespace: fn.Namespace, Source: hello})
	after := await(t, fn, fn.Name, &appsv1.Deployment{}, func(d *appsv1.Deployment) bool { return variable(d, "FUNCTION_BINARY") == key })
	for _, d := range []*appsv1.Deployment{before, after} {
		delete(d.Spec.Template.Labels, "goless.io/template")
		env := d.Spec.Template.Spec.Containers[0].Env
		d.Spec.Template.Spec.Containers[0].Env = slices.DeleteFunc(env, func(v corev1.EnvVar) bool {
			return v.Name == "FUNCTION_BINARY" || v.Name == "FUNCTION_BINARY_CAPABILITY"
		})
	}
	if diff := cmp.Diff(before.Spec.Template, after.Spec.Template); diff != "" || variable(after, "A") != "b" {
		t.Errorf("more than the binary has changed:\n%s", diff)
	}
	change(t, fn, func(fn *v1beta1.Function) { fn.Spec.Function = hello + "// mended\n" })
	await(t, fn, fn.Name, &appsv1.Deployment{}, func(d *appsv1.Deployment) bool {
		return desired.RevisionOf(&d.Spec.Template) == desired.Revision(hello+"// mended\n")
	})
}

// Pods that serve are not exchanged because one is missing and the service compiles to
// something else by now: only if that one cannot have its binary.
func TestSharedServesOnWithoutOne(t *testing.T) {
	fn := create(t, "steady", func(fn *v1beta1.Function) { shared(fn); fn.Spec.Replicas = new(int32(3)) })
	serve(t, fn)
	key := variable(await(t, fn, fn.Name, &appsv1.Deployment{}, nil), "FUNCTION_BINARY")
	set := replicaSet(t, fn)
	orders := len(service.Orders(fn.Namespace))
	t.Cleanup(func() { service.Upgrade("") })
	service.Upgrade("2")
	lacks(t, fn, 2)
	eventually(t, "the binary is ordered, twice", func() bool { return len(service.Orders(fn.Namespace)) > orders+1 })
	deployment := await(t, fn, fn.Name, &appsv1.Deployment{}, nil)
	if variable(deployment, "FUNCTION_BINARY") != key {
		t.Error("pods that serve are exchanged")
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "steady-1", Namespace: fn.Namespace, Labels: set.Labels,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))},
		},
		Spec: deployment.Spec.Template.Spec,
	}
	if err := cluster.Create(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	patch := client.MergeFrom(pod.DeepCopy())
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: "function", LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 125, Message: "not known here"}},
	}}
	if err := cluster.Status().Patch(t.Context(), pod, patch); err != nil {
		t.Fatal(err)
	}
	await(t, fn, fn.Name, deployment, func(d *appsv1.Deployment) bool { return variable(d, "FUNCTION_BINARY") != key })
}

// The operator ends after the source has compiled and before it hears how that went.
func TestSharedReportIsAskedFor(t *testing.T) {
	answers(t, "", buildtest.Reply{Compiled: true, Hold: make(chan struct{})})
	fn := create(t, "unheard", shared)
	await(t, fn, fn.Name, &appsv1.Deployment{}, nil)
	answers(t, "nothing", buildtest.Reply{})
	replaceOperatorWith(t, func() {
		deployment := await(t, fn, fn.Name, &appsv1.Deployment{}, nil)
		patch := client.MergeFrom(deployment.DeepCopy())
		deployment.Status = appsv1.DeploymentStatus{ObservedGeneration: deployment.Generation, Replicas: 1, UpdatedReplicas: 1, ReadyReplicas: 1, AvailableReplicas: 1}
		if err := cluster.Status().Patch(t.Context(), deployment, patch); err != nil {
			t.Fatal(err)
		}
	}, fn.Namespace, "")
	eventually(t, "the status has the build", func() bool {
		b := get(t, fn).Status.Build
		return b != nil && b.Duration == "80ms" && b.Revision == desired.Revision(hello)
	})
	serve(t, fn)
}

// Orders of Functions that come and go do not stay, whenever they go.
func TestSharedNothingIsLeft(t *testing.T) {
	answers(t, "", buildtest.Reply{Hold: make(chan struct{})})
	namespace := newNamespace(t)
	for i := range 40 {
		fn := create(t, fmt.Sprintf("gone%d", i), func(fn *v1beta1.Function) {
			shared(fn)
			fn.Namespace, fn.Spec.Service = namespace, ""
		})
		if i%2 == 0 {
			eventually(t, "it is ordered", func() bool { return service.Open(namespace) > 0 })
		}
		if err := cluster.Delete(t.Context(), fn); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "no order is left", func() bool { return service.Open(namespace) == 0 })
	create(t, "last", func(fn *v1beta1.Function) { shared(fn); fn.Namespace = namespace })
	eventually(t, "one order is there", func() bool { return service.Open(namespace) == 1 })
}

// lacks plays the Deployment controller that has only some pods ready.
func lacks(t *testing.T, fn *v1beta1.Function, ready int32) {
	t.Helper()
	deployment := await(t, fn, fn.Name, &appsv1.Deployment{}, nil)
	patch := client.MergeFrom(deployment.DeepCopy())
	n := *deployment.Spec.Replicas
	deployment.Status = appsv1.DeploymentStatus{ObservedGeneration: deployment.Generation, Replicas: n, UpdatedReplicas: n, ReadyReplicas: ready, AvailableReplicas: ready}
	if err := cluster.Status().Patch(t.Context(), deployment, patch); err != nil {
		t.Fatal(err)
	}
}

// The pods start while the linker works. If it fails after all, they go.
func TestSharedLinkFails(t *testing.T) {
	t.Run("update", func(t *testing.T) {
		hold := make(chan struct{})
		answers(t, "broken", buildtest.Reply{Compiled: true, Hold: hold, Report: unlucky})
		fn := create(t, "links", shared)
		serve(t, fn)
		set := replicaSet(t, fn)
		before := await(t, fn, fn.Name, &appsv1.Deployment{}, nil)
		change(t, fn, func(fn *v1beta1.Function) { fn.Spec.Function += "// broken\n" })
		during := await(t, fn, fn.Name, &appsv1.Deployment{}, func(d *appsv1.Deployment) bool {
			return desired.RevisionOf(&d.Spec.Template) != desired.RevisionOf(set)
		})
		if ready := awaitReady(t, fn, v1beta1.ReasonBuilding); variable(during, "FUNCTION_BINARY") == variable(before, "FUNCTION_BINARY") {
			t.Errorf("the pods have another program; Ready is %v", ready)
		}
		close(hold)
		after := await(t, fn, fn.Name, &appsv1.Deployment{}, func(d *appsv1.Deployment) bool {
			return desired.RevisionOf(&d.Spec.Template) == desired.RevisionOf(set)
		})
		if diff := cmp.Diff(before.Spec.Template, after.Spec.Template); diff != "" {
			t.Errorf("the pods are others than before:\n%s", diff)
		}
		ready := awaitReady(t, fn, v1beta1.ReasonBuildFailed)
		if !strings.Contains(ready.Message, "no space left") || has(t, fn, v1beta1.ConditionStalled) {
			t.Errorf("Ready is %v", ready)
		}
	})
	t.Run("first", func(t *testing.T) {
		answers(t, "", buildtest.Reply{Compiled: true, Report: failing})
		fn := create(t, "links", shared)
		awaitReady(t, fn, v1beta1.ReasonCompileFailed)
		eventually(t, "no pod of it is wanted", func() bool {
			var d appsv1.Deployment
			return !exists(t, fn, fn.Name, &d) || *d.Spec.Replicas == 0
		})
		if get(t, fn).Status.Build.Diagnostics[0].Line != 7 {
			t.Errorf("build is %v", get(t, fn).Status.Build)
		}
	})
}

// Switching the strategy is a rollout as any other.
func TestSharedSwitch(t *testing.T) {
	hold := make(chan struct{})
	answers(t, "", buildtest.Reply{Hold: hold, Report: buildtest.Built})
	fn := create(t, "switches", func(*v1beta1.Function) {})
	serve(t, fn)
	before := await(t, fn, fn.Name, &appsv1.Deployment{}, nil)
	change(t, fn, func(fn *v1beta1.Function) { shared(fn); fn.Spec.Replicas = new(int32(2)) })
	awaitReady(t, fn, v1beta1.ReasonBuilding)
	during := await(t, fn, fn.Name, &appsv1.Deployment{}, func(d *appsv1.Deployment) bool { return *d.Spec.Replicas == 2 })
	if diff := cmp.Diff(before.Spec.Template, during.Spec.Template); diff != "" {
		t.Errorf("before there is a binary:\n%s", diff)
	}
	if !has(t, fn, v1beta1.ConditionBuilt) || has(t, fn, v1beta1.ConditionReady) {
		t.Errorf("status is %+v", get(t, fn).Status)
	}
	close(hold)
	strategy := func(want v1beta1.BuildStrategy) {
		t.Helper()
		await(t, fn, fn.Name, &appsv1.Deployment{}, func(d *appsv1.Deployment) bool {
			return d.Spec.Template.Labels["goless.io/strategy"] == string(want) &&
				(len(d.Spec.Template.Spec.InitContainers) == 0) == (want == v1beta1.BuildShared)
		})
		serve(t, fn)
	}
	strategy(v1beta1.BuildShared)
	change(t, fn, func(fn *v1beta1.Function) { fn.Spec.Build.Strategy = v1beta1.BuildInPod })
	strategy(v1beta1.BuildInPod)
}

// A Function that goes takes its order along, and so does a source.
func TestSharedOrdersEnd(t *testing.T) {
	answers(t, "", buildtest.Reply{Hold: make(chan struct{})})
	fn := create(t, "goes", shared)
	eventually(t, "the order arrives", func() bool { return len(service.Orders(fn.Namespace)) == 1 })
	canceled := service.Canceled()
	change(t, fn, func(fn *v1beta1.Function) { fn.Spec.Function += "// next\n" })
	eventually(t, "the first order ends", func() bool { return service.Canceled() == canceled+1 })
	eventually(t, "the second arrives", func() bool { return len(service.Orders(fn.Namespace)) == 2 })
	if err := cluster.Delete(t.Context(), fn); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the second order ends", func() bool { return service.Canceled() == canceled+2 })
}

// Without a right to its Secret the operator says so where it matters, and
// nowhere else.
func TestSharedWithoutRights(t *testing.T) {
	of := metav1.ObjectMeta{Namespace: "goless-system", Name: "goless-build"}
	for _, verb := range []string{"create", "get"} {
		t.Run(verb, func(t *testing.T) {
			if err := client.IgnoreNotFound(cluster.Delete(t.Context(), &corev1.Secret{ObjectMeta: of})); err != nil {
				t.Fatal(err)
			}
			give := take(t, &rbacv1.Role{ObjectMeta: of}, "secrets", verb)
			replaceOperator(t, newNamespace(t), "") // it remembers the seed
			exchangeOperator(t, configured, writes)
			serve(t, create(t, "in-pod", func(*v1beta1.Function) {}))
			fn := create(t, "poor", shared)
			eventually(t, "Ready names the right", func() bool {
				c := meta.FindStatusCondition(get(t, fn).Status.Conditions, v1beta1.ConditionReady)
				return c != nil && strings.Contains(c.Message, fmt.Sprintf(`cannot %s resource "secrets"`, verb))
			})
			give()
			serve(t, fn)
		})
	}
}

// replicaSet plays the Deployment controller, for what the status tells of revisions.
func replicaSet(t *testing.T, fn *v1beta1.Function) *appsv1.ReplicaSet {
	t.Helper()
	deployment := await(t, fn, fn.Name, &appsv1.Deployment{}, nil)
	set := &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{
			Name: fn.Name + "-1", Namespace: fn.Namespace, Labels: deployment.Spec.Template.Labels,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(deployment, appsv1.SchemeGroupVersion.WithKind("Deployment"))},
		},
		Spec: appsv1.ReplicaSetSpec{
			Replicas: new(int32(1)), Template: deployment.Spec.Template,
			Selector: &metav1.LabelSelector{MatchLabels: deployment.Spec.Template.Labels},
		},
	}
	if err := cluster.Create(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	patch := client.MergeFrom(set.DeepCopy())
	set.Status = appsv1.ReplicaSetStatus{Replicas: 1, ReadyReplicas: 1, AvailableReplicas: 1}
	if err := cluster.Status().Patch(t.Context(), set, patch); err != nil {
		t.Fatal(err)
	}
	return set
}

// variable is the value of a variable of the function.
func variable(d *appsv1.Deployment, name string) string {
	for _, v := range d.Spec.Template.Spec.Containers[0].Env {
		if v.Name == name {
			return v.Value
		}
	}
	return ""
}
