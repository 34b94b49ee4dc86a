package function_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/desired"
)

// scaling returns a change of spec.scaling.
func scaling(least, most int32) func(*v1beta1.Function) {
	return func(fn *v1beta1.Function) { fn.Spec.Scaling = &v1beta1.Scaling{Min: &least, Max: &most} }
}

// scale sets the number of replicas like an autoscaler or the activator.
func scale(t *testing.T, fn *v1beta1.Function, n int32) {
	t.Helper()
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: fn.Namespace, Name: fn.Name}}
	body := &autoscalingv1.Scale{ObjectMeta: d.ObjectMeta, Spec: autoscalingv1.ScaleSpec{Replicas: n}}
	if err := cluster.SubResource("scale").Update(t.Context(), d, client.WithSubResourceBody(body), client.FieldOwner("somebody")); err != nil {
		t.Fatal(err)
	}
}

// sizes records each number of replicas of a Function's Deployment until stop is called, which
// returns them.
func sizes(t *testing.T, fn *v1beta1.Function) (stop func() []int32) {
	t.Helper()
	watching, err := client.NewWithWatch(server, client.Options{Scheme: clientgoscheme.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	watch, err := watching.Watch(t.Context(), &appsv1.DeploymentList{}, client.InNamespace(fn.Namespace))
	if err != nil {
		t.Fatal(err)
	}
	var all []int32
	read := make(chan struct{})
	go func() {
		defer close(read)
		for event := range watch.ResultChan() {
			d, ok := event.Object.(*appsv1.Deployment)
			if !ok || d.Annotations["test"] == "end" {
				return
			}
			all = append(all, *d.Spec.Replicas)
		}
	}()
	return func() []int32 {
		d := await(t, fn, fn.Name, &appsv1.Deployment{}, nil)
		patch := client.MergeFrom(d.DeepCopy())
		metav1.SetMetaDataAnnotation(&d.ObjectMeta, "test", "end")
		if err := cluster.Patch(t.Context(), d, patch); err != nil {
			t.Fatal(err)
		}
		<-read
		watch.Stop()
		return slices.Compact(all)
	}
}

// ownsReplicas reports whether the operator applies the number of replicas.
func ownsReplicas(t *testing.T, d *appsv1.Deployment) bool {
	t.Helper()
	applied, err := appsv1ac.ExtractDeployment(d, desired.FieldOwner)
	if err != nil {
		t.Fatal(err)
	}
	return desired.OwnsReplicas(applied)
}

// The ownership of the number of replicas changes without an intermediate reset to 1, and back.
func TestReplicasAreHandedOver(t *testing.T) {
	fn := create(t, "scaled", func(fn *v1beta1.Function) { fn.Spec.Replicas = new(int32(3)) })
	serve(t, fn)
	stop := sizes(t, fn)
	change(t, fn, scaling(2, 10))
	handed := func(d *appsv1.Deployment) bool { return !ownsReplicas(t, d) }
	await(t, fn, fn.Name, &appsv1.Deployment{}, handed)
	autoscaler := await(t, fn, fn.Name, &autoscalingv2.HorizontalPodAutoscaler{}, ownedByApply)
	if s := autoscaler.Spec; *s.MinReplicas != 2 || s.MaxReplicas != 10 || s.ScaleTargetRef.Name != fn.Name || s.Metrics[0].Resource.Target.AverageValue.String() != "500m" {
		t.Errorf("unexpected autoscaler %+v", s)
	}
	scale(t, fn, 5)
	serve(t, fn)
	change(t, fn, func(fn *v1beta1.Function) { fn.Spec.Concurrency = 9 }) // causes a rollout
	await(t, fn, fn.Name, &appsv1.Deployment{}, func(d *appsv1.Deployment) bool {
		return variable(d, "REQUEST_CONCURRENCY") == "9"
	})
	change(t, fn, scaling(2, 4))
	await(t, fn, fn.Name, &appsv1.Deployment{}, func(d *appsv1.Deployment) bool { return *d.Spec.Replicas == 4 })
	change(t, fn, func(fn *v1beta1.Function) { fn.Spec.Scaling, fn.Spec.Replicas = nil, new(int32(6)) })
	await(t, fn, fn.Name, &appsv1.Deployment{}, func(d *appsv1.Deployment) bool { return ownsReplicas(t, d) && *d.Spec.Replicas == 6 })
	eventually(t, "autoscaler deleted", func() bool { return !exists(t, fn, fn.Name, autoscaler) })
	if got, want := stop(), []int32{3, 5, 4, 6}; !slices.Equal(got, want) {
		t.Errorf("replicas were %v, want %v", got, want)
	}
}

// The number of replicas is kept if an apply is invalid and the spec is replaced instead: here
// another client has added valueFrom to a variable, which excludes a value.
func TestReplicasStayInReplacedSpec(t *testing.T) {
	fn := create(t, "replaced", scaling(2, 10))
	serve(t, fn)
	scale(t, fn, 5)
	stop := sizes(t, fn)
	d := await(t, fn, fn.Name, &appsv1.Deployment{}, func(d *appsv1.Deployment) bool { return *d.Spec.Replicas == 5 })
	patch := client.StrategicMergeFrom(d.DeepCopy())
	d.Spec.Template.Spec.Containers[0].Env = append(d.Spec.Template.Spec.Containers[0].Env, corev1.EnvVar{
		Name: "LEVEL", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}},
	})
	if err := cluster.Patch(t.Context(), d, patch, client.FieldOwner("somebody")); err != nil {
		t.Fatal(err)
	}
	change(t, fn, func(fn *v1beta1.Function) { fn.Spec.Env = []v1beta1.EnvVar{{Name: "LEVEL", Value: "debug"}} })
	await(t, fn, fn.Name, &appsv1.Deployment{}, func(d *appsv1.Deployment) bool { return variable(d, "LEVEL") == "debug" })
	change(t, fn, func(fn *v1beta1.Function) { fn.Spec.Concurrency = 9 })
	d = await(t, fn, fn.Name, &appsv1.Deployment{}, func(d *appsv1.Deployment) bool { return variable(d, "REQUEST_CONCURRENCY") == "9" })
	if got := stop(); !slices.Equal(got, []int32{5}) || ownsReplicas(t, d) {
		t.Errorf("replicas were %v, want only 5; owned by the operator: %t", got, ownsReplicas(t, d))
	}
}

// Frequent changes to the status of an autoscaler cause no reconciles. Changes to its spec are
// reverted.
func TestAutoscalerIsRepaired(t *testing.T) {
	fn := create(t, "repaired", scaling(1, 7))
	alone := configured
	alone.Namespaces = []string{fn.Namespace}
	exchangeOperator(t, alone, &writeLog{})
	serve(t, fn)
	autoscaler := await(t, fn, fn.Name, &autoscalingv2.HorizontalPodAutoscaler{}, ownedByApply)
	before := reconciles(t)
	for n := range int32(50) {
		patch := client.MergeFrom(autoscaler.DeepCopy())
		autoscaler.Status.CurrentReplicas = n + 1
		if err := cluster.Status().Patch(t.Context(), autoscaler, patch); err != nil {
			t.Fatal(err)
		}
	}
	patch := client.MergeFrom(autoscaler.DeepCopy())
	autoscaler.Spec.MaxReplicas = 99
	if err := cluster.Patch(t.Context(), autoscaler, patch); err != nil {
		t.Fatal(err)
	}
	await(t, fn, fn.Name, autoscaler, func(a *autoscalingv2.HorizontalPodAutoscaler) bool { return a.Spec.MaxReplicas == 7 })
	if got := reconciles(t) - before; got > 10 { // for the change, its repair and earlier events
		t.Errorf("%v reconciles, want at most 10", got)
	}
}

// scaleByOthers creates a HorizontalPodAutoscaler of another owner for a Deployment.
func scaleByOthers(t *testing.T, namespace, deployment string, maximum int32) *autoscalingv2.HorizontalPodAutoscaler {
	t.Helper()
	theirs := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "theirs"}}
	theirs.Spec.ScaleTargetRef = autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: deployment}
	theirs.Spec.MaxReplicas = maximum
	if err := cluster.Create(t.Context(), theirs); err != nil {
		t.Fatal(err)
	}
	return theirs
}

// A HorizontalPodAutoscaler of another owner that scales the Deployment owns the number of replicas
// and is reported. When it is deleted, the operator creates its own again.
func TestAutoscalerOfTheDeployment(t *testing.T) {
	fn := create(t, "rivalled", func(fn *v1beta1.Function) { fn.Spec.Replicas = new(int32(2)) })
	serve(t, fn)
	stop := sizes(t, fn)
	theirs := scaleByOthers(t, fn.Namespace, fn.Name, 60) // more than the maximum of the settings
	await(t, fn, fn.Name, &appsv1.Deployment{}, func(d *appsv1.Deployment) bool { return !ownsReplicas(t, d) })
	reported := func() bool {
		c := meta.FindStatusCondition(get(t, fn).Status.Conditions, v1beta1.ConditionDegraded)
		return c != nil && c.Reason == v1beta1.ReasonAutoscalerConflict && strings.Contains(c.Message, `HorizontalPodAutoscaler "theirs"`)
	}
	eventually(t, "conflict reported", reported)
	for _, n := range []int32{7, 55} {
		scale(t, fn, n)
		change(t, fn, func(fn *v1beta1.Function) { fn.Spec.Concurrency = n }) // the operator applies the Deployment
		await(t, fn, fn.Name, &appsv1.Deployment{}, func(d *appsv1.Deployment) bool {
			return variable(d, "REQUEST_CONCURRENCY") == fmt.Sprint(n)
		})
	}
	change(t, fn, scaling(1, 10))
	change(t, fn, func(fn *v1beta1.Function) { fn.Spec.Concurrency = 9 })
	await(t, fn, fn.Name, &appsv1.Deployment{}, func(d *appsv1.Deployment) bool { return variable(d, "REQUEST_CONCURRENCY") == "9" })
	if exists(t, fn, fn.Name, &autoscalingv2.HorizontalPodAutoscaler{}) {
		t.Error("a second HorizontalPodAutoscaler scales the same pods")
	}
	remove(t, theirs)
	await(t, fn, fn.Name, &autoscalingv2.HorizontalPodAutoscaler{}, ownedByApply)
	await(t, fn, fn.Name, &appsv1.Deployment{}, func(d *appsv1.Deployment) bool { return *d.Spec.Replicas == 10 })
	eventually(t, "conflict resolved", func() bool { return !has(t, fn, v1beta1.ConditionDegraded) })
	change(t, fn, func(fn *v1beta1.Function) { fn.Spec.Scaling = nil })
	await(t, fn, fn.Name, &appsv1.Deployment{}, func(d *appsv1.Deployment) bool { return ownsReplicas(t, d) && *d.Spec.Replicas == 2 })
	if got, want := stop(), []int32{2, 7, 55, 10, 2}; !slices.Equal(got, want) {
		t.Errorf("replicas were %v, want %v", got, want)
	}
}

// A window that is active raises the minimum of replicas, which wakes a sleeping function.
func TestWindow(t *testing.T) {
	fn := create(t, "windows", scaling(0, 5))
	serve(t, fn)
	routeToActivator(t, fn)
	scale(t, fn, 0)
	follow(t, fn)
	awaitReady(t, fn, v1beta1.ReasonAsleep)
	change(t, fn, func(fn *v1beta1.Function) {
		fn.Spec.Scaling.Windows = []v1beta1.Window{{Schedule: "* * * * *", Duration: metav1.Duration{Duration: time.Hour}, Min: 2}}
	})
	await(t, fn, fn.Name, &appsv1.Deployment{}, func(d *appsv1.Deployment) bool { return *d.Spec.Replicas == 2 })
	await(t, fn, "svc", &corev1.Service{}, func(s *corev1.Service) bool { return s.Annotations[v1beta1.SleepAfterAnnotation] == "" })
	change(t, fn, func(fn *v1beta1.Function) { fn.Spec.Scaling.Windows = nil })
	await(t, fn, "svc", &corev1.Service{}, func(s *corev1.Service) bool { return s.Annotations[v1beta1.SleepAfterAnnotation] != "" })
}

// A Function is reconciled again when its window begins or ends. The operator is stopped, because a
// Function must not be reconciled by two goroutines at the same time.
func TestWindowChanges(t *testing.T) {
	// With any window, the Service has all its annotations. Nothing of them is written below, where
	// the cache is not updated.
	fn := create(t, "scheduled", func(fn *v1beta1.Function) {
		scaling(1, 5)(fn)
		fn.Spec.Scaling.Windows = []v1beta1.Window{{Schedule: "0 0 1 1 *", Duration: metav1.Duration{Duration: time.Minute}, Min: 1}}
	})
	serve(t, fn)
	stopOperator()
	t.Cleanup(func() { restartOperator(t, configured, writes) })
	change := time.Now().UTC().Truncate(time.Minute).Add(time.Hour)
	for what, begin := range map[string]time.Time{"requeued for the begin": change, "requeued for the end": change.Add(-2 * time.Hour)} {
		eventually(t, what, func() bool {
			fn := get(t, fn)
			fn.Spec.Scaling.Windows = []v1beta1.Window{{
				Schedule: fmt.Sprintf("%d %d * * *", begin.Minute(), begin.Hour()), Duration: metav1.Duration{Duration: 2 * time.Hour}, Min: 1,
			}}
			earliest := time.Now()
			result, err := reconciler.Reconcile(t.Context(), fn)
			latest := time.Now()
			return err == nil && result.Priority != nil && *result.Priority == handler.LowPriority &&
				!earliest.Add(result.RequeueAfter).After(change) && !latest.Add(result.RequeueAfter).Before(change)
		})
	}
}

// A sleeping function is not changed. A new version is applied when the previous one has been
// woken.
func TestSleepingFunction(t *testing.T) {
	fn := create(t, "sleeps", scaling(0, 1))
	service := await(t, fn, "svc", &corev1.Service{}, ownedByApply)
	if got := service.Annotations[v1beta1.SleepAfterAnnotation]; got != "5m0s" {
		t.Errorf("sleep-after annotation of the Service: %q", got)
	}
	serve(t, fn)
	d := await(t, fn, fn.Name, &appsv1.Deployment{}, nil)
	if ownsReplicas(t, d) || *d.Spec.Replicas != 1 {
		t.Errorf("%d replicas, owned by the operator: %t", *d.Spec.Replicas, ownsReplicas(t, d))
	}
	routeToActivator(t, fn)
	scale(t, fn, 0)
	follow(t, fn)
	awaitReady(t, fn, v1beta1.ReasonAsleep)
	if available := meta.FindStatusCondition(get(t, fn).Status.Conditions, v1beta1.ConditionAvailable); available.Reason != v1beta1.ReasonAsleep || has(t, fn, v1beta1.ConditionReconciling) {
		t.Errorf("while the function sleeps: %+v", get(t, fn).Status.Conditions)
	}
	stop := sizes(t, fn)
	newer := hello + "// newer\n"
	change(t, fn, func(fn *v1beta1.Function) { fn.Spec.Function = newer })
	awoken := await(t, fn, fn.Name, &appsv1.Deployment{}, func(d *appsv1.Deployment) bool { return *d.Spec.Replicas == 1 })
	awaitReady(t, fn, v1beta1.ReasonBuilding)
	if got := desired.RevisionOf(&awoken.Spec.Template); got != desired.Revision(hello) {
		t.Errorf("before the function is awake: revision %s", got)
	}
	readyPod(t, awoken)
	await(t, fn, fn.Name, &appsv1.Deployment{}, func(d *appsv1.Deployment) bool {
		return desired.RevisionOf(&d.Spec.Template) == desired.Revision(newer)
	})
	change(t, fn, func(fn *v1beta1.Function) { fn.Spec.Replicas = new(int32(0)) })
	await(t, fn, fn.Name, &appsv1.Deployment{}, func(d *appsv1.Deployment) bool { return *d.Spec.Replicas == 0 })
	await(t, fn, "svc", service, func(s *corev1.Service) bool { return len(s.Annotations) == 0 })
	follow(t, fn)
	awaitReady(t, fn, v1beta1.ReasonStopped)
	change(t, fn, func(fn *v1beta1.Function) { fn.Spec.Replicas = new(int32(1)) })
	await(t, fn, fn.Name, &appsv1.Deployment{}, func(d *appsv1.Deployment) bool { return !ownsReplicas(t, d) && *d.Spec.Replicas == 1 })
	if got, want := stop(), []int32{0, 1, 0, 1}; !slices.Equal(got, want) {
		t.Errorf("replicas were %v, want %v", got, want)
	}
}

// follow sets the status of a Deployment whose rollout is complete.
func follow(t *testing.T, fn *v1beta1.Function) {
	t.Helper()
	d := await(t, fn, fn.Name, &appsv1.Deployment{}, nil)
	before := client.MergeFrom(d.DeepCopy())
	n := *d.Spec.Replicas
	d.Status = appsv1.DeploymentStatus{
		ObservedGeneration: d.Generation, Replicas: n, UpdatedReplicas: n, ReadyReplicas: n, AvailableReplicas: n,
		Conditions: []appsv1.DeploymentCondition{{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Reason: "NewReplicaSetAvailable"}},
	}
	if err := cluster.Status().Patch(t.Context(), d, before); err != nil {
		t.Fatal(err)
	}
}

// readyPod creates a ready pod of a Deployment.
func readyPod(t *testing.T, d *appsv1.Deployment) {
	t.Helper()
	pod := startPod(t, d)
	before := client.MergeFrom(pod.DeepCopy())
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	if err := cluster.Status().Patch(t.Context(), pod, before); err != nil {
		t.Fatal(err)
	}
}

// startPod creates a ReplicaSet and a pod of a Deployment.
func startPod(t *testing.T, d *appsv1.Deployment) *corev1.Pod {
	t.Helper()
	owned := func(kind string, owner metav1.Object) metav1.ObjectMeta {
		return metav1.ObjectMeta{
			Namespace: d.Namespace, Name: d.Name + "-1", Labels: d.Spec.Template.Labels,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: kind, Name: owner.GetName(), UID: owner.GetUID(), Controller: new(true)}},
		}
	}
	set := &appsv1.ReplicaSet{ObjectMeta: owned("Deployment", d), Spec: appsv1.ReplicaSetSpec{Selector: d.Spec.Selector, Template: d.Spec.Template}}
	if err := cluster.Create(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{ObjectMeta: owned("ReplicaSet", set), Spec: d.Spec.Template.Spec}
	if err := cluster.Create(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	return pod
}
