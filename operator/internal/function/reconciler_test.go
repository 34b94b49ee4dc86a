package function_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/desired"
)

const hello = `package handlers

import "net/http"

func Handler(w http.ResponseWriter, r *http.Request) { w.Write([]byte("hello")) }
`

func TestChildren(t *testing.T) {
	fn := create(t, "children", func(*v1beta1.Function) {})
	revision := desired.Revision(hello)

	deployment := await(t, fn, fn.Name, &appsv1.Deployment{}, nil)
	source := await(t, fn, fn.Name+"-"+revision, &corev1.ConfigMap{}, nil)
	service := await(t, fn, "svc", &corev1.Service{}, nil)
	for _, child := range []client.Object{deployment, source, service} {
		if !metav1.IsControlledBy(child, fn) {
			t.Errorf("%T is not controlled by the Function: %v", child, child.GetOwnerReferences())
		}
	}
	if got := source.Data["handler.go"]; got != hello || source.Immutable == nil || !*source.Immutable {
		t.Errorf("the ConfigMap holds %q, immutable %v", got, source.Immutable)
	}
	if got := service.Spec.Ports[0].Port; got != 9000 {
		t.Errorf("the Service has port %d", got)
	}
	ready := awaitReady(t, fn, v1beta1.ReasonBuilding)
	if ready.Status != metav1.ConditionFalse || !has(t, fn, v1beta1.ConditionReconciling) {
		t.Errorf("before any pod: Ready is %v", ready)
	}
	eventually(t, "the status has the URL", func() bool {
		return get(t, fn).Status.URL == fmt.Sprintf("http://svc.%s.svc:9000", fn.Namespace)
	})
	if status := get(t, fn).Status; status.LatestRevision != revision || status.Selector != "goless.io/function=children" {
		t.Errorf("status is %+v", status)
	}
}

// Once it has converged, an unchanged Function causes no write, whatever event
// makes the operator look at it again.
func TestUnchangedFunctionCausesNoWrites(t *testing.T) {
	fn := create(t, "quiet", everyField)
	deployment := await(t, fn, fn.Name, &appsv1.Deployment{}, ownedByApply)
	await(t, fn, "svc", &corev1.Service{}, ownedByApply)
	await(t, fn, fn.Name+"-"+desired.Revision(hello), &corev1.ConfigMap{}, ownedByApply)
	await(t, fn, fn.Name, &policyv1.PodDisruptionBudget{}, ownedByApply)
	eventually(t, "the status is complete", func() bool { return get(t, fn).Status.URL != "" })

	var before []string
	for i := range 6 {
		if i == 1 {
			before = about(writes.all(), fn)
		}
		// A field of somebody else, which is none of ours, but an event.
		seen := reconciles(t)
		patch := client.MergeFrom(deployment.DeepCopy())
		metav1.SetMetaDataAnnotation(&deployment.ObjectMeta, "somebody", fmt.Sprint(i))
		if err := cluster.Patch(t.Context(), deployment, patch); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the operator looks again", func() bool { return reconciles(t) > seen })
	}
	if diff := cmp.Diff(before, about(writes.all(), fn)); diff != "" {
		t.Errorf("the operator wrote without need:\n%s", diff)
	}
}

// reconciles is how often the operator has looked at a Function.
func reconciles(t *testing.T) float64 {
	t.Helper()
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var total float64
	for _, family := range families {
		if family.GetName() == "controller_runtime_reconcile_total" {
			for _, metric := range family.GetMetric() {
				total += metric.GetCounter().GetValue()
			}
		}
	}
	return total
}

func ownedByApply[T client.Object](object T) bool {
	for _, entry := range object.GetManagedFields() {
		if entry.Manager == "goless-operator" && entry.Operation == metav1.ManagedFieldsOperationUpdate {
			return false
		}
	}
	return true
}

// about keeps the writes in the namespace of a Function.
func about(all []string, fn *v1beta1.Function) []string {
	var kept []string
	for _, write := range all {
		if strings.Contains(write, "/"+fn.Namespace+"/") {
			kept = append(kept, write)
		}
	}
	return kept
}

func TestDriftIsUndone(t *testing.T) {
	fn := create(t, "drift", func(*v1beta1.Function) {})
	deployment := await(t, fn, fn.Name, &appsv1.Deployment{}, ownedByApply)
	service := await(t, fn, "svc", &corev1.Service{}, ownedByApply)
	revision := fn.Name + "-" + desired.Revision(hello)
	await(t, fn, revision, &corev1.ConfigMap{}, nil)

	t.Run("edited", func(t *testing.T) {
		deployment.Spec.Template.Spec.Containers[0].Image = "evil"
		deployment.Spec.Template.Spec.Containers[0].Env[0].Value = "1"
		deployment.Spec.Replicas = new(int32(5))
		deployment.OwnerReferences[0].BlockOwnerDeletion = new(false)
		overwrite(t, deployment)
		await(t, fn, fn.Name, &appsv1.Deployment{}, func(d *appsv1.Deployment) bool {
			c := d.Spec.Template.Spec.Containers[0]
			return c.Image == configured.Images.Function && c.Env[0].Value == "9000" && *d.Spec.Replicas == 1 && *d.OwnerReferences[0].BlockOwnerDeletion
		})
	})
	t.Run("label removed", func(t *testing.T) {
		service.Labels = nil
		service.Spec.Ports[0].TargetPort = intstr.FromInt32(1)
		overwrite(t, service)
		await(t, fn, "svc", &corev1.Service{}, func(s *corev1.Service) bool {
			return s.Labels[desired.FunctionLabel] == fn.Name && s.Spec.Ports[0].TargetPort == intstr.FromString("http")
		})
	})
	t.Run("port exchanged", func(t *testing.T) {
		// The entry with another port is another entry, and not ours.
		await(t, fn, "svc", service, ownedByApply)
		service.Spec.Ports[0].Port, service.Labels = 81, nil
		overwrite(t, service)
		await(t, fn, "svc", service, func(s *corev1.Service) bool {
			return len(s.Spec.Ports) == 2 && s.Spec.Ports[0].Port == 9000 && s.Labels[desired.FunctionLabel] == fn.Name
		})
		await(t, fn, "svc", service, ownedByApply)
	})
	t.Run("deleted", func(t *testing.T) {
		for _, child := range []client.Object{
			&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: fn.Name, Namespace: fn.Namespace}},
			&corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "svc", Namespace: fn.Namespace}},
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: revision, Namespace: fn.Namespace}},
		} {
			if err := cluster.Get(t.Context(), client.ObjectKeyFromObject(child), child); err != nil {
				t.Fatal(err)
			}
			old := child.GetUID()
			if err := cluster.Delete(t.Context(), child); err != nil {
				t.Fatal(err)
			}
			eventually(t, fmt.Sprintf("%T comes back", child), func() bool {
				err := cluster.Get(t.Context(), client.ObjectKeyFromObject(child), child)
				return err == nil && child.GetUID() != old
			})
		}
	})
}

func TestWhatIsNotOursIsNotTouched(t *testing.T) {
	namespace := newNamespace(t)
	foreign := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "svc", Namespace: namespace, Labels: map[string]string{desired.FunctionLabel: "conflict"}},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 1}}},
	}
	if err := cluster.Create(t.Context(), foreign); err != nil {
		t.Fatal(err)
	}
	fn := create(t, "conflict", func(fn *v1beta1.Function) { fn.Namespace = namespace })
	ready := awaitReady(t, fn, v1beta1.ReasonServiceConflict)
	if !strings.Contains(ready.Message, `Service "svc" does not belong to this Function`) {
		t.Errorf("message is %q", ready.Message)
	}
	if !has(t, fn, v1beta1.ConditionStalled) || has(t, fn, v1beta1.ConditionReconciling) {
		t.Error("a conflict is not Stalled")
	}
	now := await(t, fn, "svc", &corev1.Service{}, nil)
	if diff := cmp.Diff(foreign, now); diff != "" {
		t.Errorf("the Service was written:\n%s", diff)
	}

	if err := cluster.Delete(t.Context(), foreign); err != nil {
		t.Fatal(err)
	}
	await(t, fn, "svc", &corev1.Service{}, func(s *corev1.Service) bool { return metav1.IsControlledBy(s, fn) })
	awaitReady(t, fn, v1beta1.ReasonBuilding)
}

// No garbage collector runs here, so what a deleted Function leaves behind stays
// until the test removes it.
func TestRecreatedFunctionWaitsForItsPredecessorsObjects(t *testing.T) {
	fn := create(t, "again", func(*v1beta1.Function) {})
	old := await(t, fn, "svc", &corev1.Service{}, ownedByApply)
	if err := cluster.Delete(t.Context(), fn); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the Function is gone", func() bool { return !exists(t, fn, fn.Name, &v1beta1.Function{}) })
	again := create(t, "again", func(next *v1beta1.Function) { next.Namespace = fn.Namespace })
	awaitReady(t, again, v1beta1.ReasonBuilding)
	if now := await(t, again, "svc", &corev1.Service{}, nil); !metav1.IsControlledBy(now, fn) {
		t.Errorf("the Service of the deleted Function was taken over: %v", now)
	}
	if err := cluster.Delete(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	await(t, again, "svc", &corev1.Service{}, func(s *corev1.Service) bool { return metav1.IsControlledBy(s, again) })
}

func TestServiceMoves(t *testing.T) {
	fn := create(t, "moves", func(*v1beta1.Function) {})
	await(t, fn, "svc", &corev1.Service{}, nil)
	change(t, fn, func(fn *v1beta1.Function) { fn.Spec.Service = "other" })
	await(t, fn, "other", &corev1.Service{}, nil)
	eventually(t, "the old Service goes", func() bool { return !exists(t, fn, "svc", &corev1.Service{}) })
	eventually(t, "the URL follows", func() bool {
		return get(t, fn).Status.URL == fmt.Sprintf("http://other.%s.svc:9000", fn.Namespace)
	})
}

// A source that is refused changes nothing but the status; the rest of the spec
// still holds for the source before.
func TestInvalidSourceKeepsTheLastValidOne(t *testing.T) {
	fn := create(t, "refused", func(*v1beta1.Function) {})
	revision := desired.Revision(hello)
	await(t, fn, fn.Name, &appsv1.Deployment{}, nil)
	awaitReady(t, fn, v1beta1.ReasonBuilding)

	change(t, fn, func(fn *v1beta1.Function) {
		fn.Spec.Function = "package handlers\n\nfunc Handler() {}\n"
		fn.Spec.Replicas = new(int32(3))
	})
	ready := awaitReady(t, fn, v1beta1.ReasonInvalidSource)
	if !strings.HasPrefix(ready.Message, "handler.go:3:") || !has(t, fn, v1beta1.ConditionStalled) {
		t.Errorf("Ready is %+v", ready)
	}
	deployment := await(t, fn, fn.Name, &appsv1.Deployment{}, func(d *appsv1.Deployment) bool { return *d.Spec.Replicas == 3 })
	if got := desired.RevisionOf(&deployment.Spec.Template); got != revision {
		t.Errorf("the Deployment went to revision %q", got)
	}
	status := get(t, fn).Status
	if len(status.Build.Diagnostics) == 0 || status.Build.Diagnostics[0].Line != 3 || status.LatestRevision != revision {
		t.Errorf("status is %+v", status)
	}

	change(t, fn, func(fn *v1beta1.Function) { fn.Spec.Function = hello + "// fixed\n" })
	awaitReady(t, fn, v1beta1.ReasonBuilding)
	if status := get(t, fn).Status; status.Build != nil && len(status.Build.Diagnostics) > 0 {
		t.Errorf("old diagnostics stay: %+v", status.Build)
	}
}

// Even without the last valid source, or with a forged one under its name, what
// runs is scaled and keeps its Service.
func TestInvalidSourceWithoutTheLastValidOne(t *testing.T) {
	fn := create(t, "lost", func(*v1beta1.Function) {})
	revision := desired.Revision(hello)
	await(t, fn, fn.Name, &appsv1.Deployment{}, ownedByApply)
	await(t, fn, "svc", &corev1.Service{}, ownedByApply)
	awaitReady(t, fn, v1beta1.ReasonBuilding)
	change(t, fn, func(fn *v1beta1.Function) { fn.Spec.Function = "package handlers" })
	awaitReady(t, fn, v1beta1.ReasonInvalidSource)
	source := await(t, fn, fn.Name+"-"+revision, &corev1.ConfigMap{}, nil)
	for _, lost := range []client.Object{source, await(t, fn, "svc", &corev1.Service{}, nil)} {
		if err := cluster.Delete(t.Context(), lost); err != nil {
			t.Fatal(err)
		}
	}
	forged := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Name: source.Name, Namespace: source.Namespace, Labels: source.Labels, OwnerReferences: source.OwnerReferences,
		},
		Data: map[string]string{"handler.go": hello + "// forged\n"},
	}
	if err := cluster.Create(t.Context(), forged); err != nil {
		t.Fatal(err)
	}
	change(t, fn, func(fn *v1beta1.Function) { fn.Spec.Replicas = new(int32(0)) })
	await(t, fn, fn.Name, &appsv1.Deployment{}, func(d *appsv1.Deployment) bool {
		return *d.Spec.Replicas == 0 && desired.RevisionOf(&d.Spec.Template) == revision
	})
	await(t, fn, "svc", &corev1.Service{}, nil)
}

// Sources that no ReplicaSet needs any more go away.
func TestOldSourcesAreRemoved(t *testing.T) {
	fn := create(t, "prunes", func(*v1beta1.Function) {})
	old := fn.Name + "-" + desired.Revision(hello)
	await(t, fn, old, &corev1.ConfigMap{}, nil)
	change(t, fn, func(fn *v1beta1.Function) { fn.Spec.Function = hello + "// new\n" })
	await(t, fn, fn.Name+"-"+desired.Revision(hello+"// new\n"), &corev1.ConfigMap{}, nil)
	eventually(t, "the old source goes", func() bool { return !exists(t, fn, old, &corev1.ConfigMap{}) })
}

// Somebody who may write ConfigMaps lays another source under the name of a
// revision to come.
func TestForgedSourceIsReplaced(t *testing.T) {
	fn := create(t, "forged", func(*v1beta1.Function) {})
	await(t, fn, fn.Name, &appsv1.Deployment{}, nil)
	next := hello + "// next\n"
	forged := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Name: fn.Name + "-" + desired.Revision(next), Namespace: fn.Namespace,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(fn, v1beta1.GroupVersion.WithKind("Function"))},
		},
		Data:      map[string]string{"handler.go": "package evil"},
		Immutable: new(true),
	}
	if err := cluster.Create(t.Context(), forged); err != nil {
		t.Fatal(err)
	}
	change(t, fn, func(fn *v1beta1.Function) { fn.Spec.Function = next })
	await(t, fn, forged.Name, &corev1.ConfigMap{}, func(c *corev1.ConfigMap) bool { return c.Data["handler.go"] == next })
}

func TestSchemaRefuses(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*v1beta1.Function)
		want   string
	}{
		"NoSource":        {func(fn *v1beta1.Function) { fn.Spec.Function = "" }, "spec.function"},
		"HugeSource":      {func(fn *v1beta1.Function) { fn.Spec.Function = strings.Repeat("/", 245761) }, "245760"},
		"AdminPort":       {func(fn *v1beta1.Function) { fn.Spec.ServerPort = 9090 }, "choose another"},
		"PortTooHigh":     {func(fn *v1beta1.Function) { fn.Spec.ServerPort = 65536 }, "65535"},
		"NegativePort":    {func(fn *v1beta1.Function) { fn.Spec.ServerPort = -1 }, "spec.serverPort"},
		"NegativeCount":   {func(fn *v1beta1.Function) { fn.Spec.Replicas = new(int32(-1)) }, "spec.replicas"},
		"ServiceName":     {func(fn *v1beta1.Function) { fn.Spec.Service = "Not_A_Name" }, "service must be the name of a Service"},
		"LongServiceName": {func(fn *v1beta1.Function) { fn.Spec.Service = strings.Repeat("a", 64) }, "63"},
		"LongName":        {func(fn *v1beta1.Function) { fn.Name = strings.Repeat("a", 64) }, "metadata.name must be a DNS label"},
		"DottedName":      {func(fn *v1beta1.Function) { fn.Name = "a.b" }, "metadata.name must be a DNS label"},
		"DigitName":       {func(fn *v1beta1.Function) { fn.Name, fn.Spec.Service = "2048", "" }, "set spec.service"},
	} {
		t.Run(name, func(t *testing.T) {
			fn := template("schema")
			fn.Namespace = "default"
			test.change(fn)
			err := cluster.Create(t.Context(), fn)
			if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want an invalid object and %q", err, test.want)
			}
		})
	}
}

// The largest source that the schema allows is stored, in the ConfigMap too.
func TestLargestSource(t *testing.T) {
	comment := "// " + strings.Repeat("\U0001F600", 245760-len(hello)-len("// \n")) + "\n"
	fn := create(t, "largest", func(fn *v1beta1.Function) { fn.Spec.Function = hello + comment })
	await(t, fn, fn.Name+"-"+desired.Revision(hello+comment), &corev1.ConfigMap{}, nil)
}

func template(name string) *v1beta1.Function {
	fn := &v1beta1.Function{}
	fn.Name = name
	fn.Spec = v1beta1.FunctionSpec{Function: hello, Service: "svc", ServerPort: 9000}
	return fn
}

func create(t *testing.T, name string, change func(*v1beta1.Function)) *v1beta1.Function {
	t.Helper()
	fn := template(name)
	change(fn)
	if fn.Namespace == "" {
		fn.Namespace = newNamespace(t)
	}
	if err := cluster.Create(t.Context(), fn); err != nil {
		t.Fatal(err)
	}
	return fn
}

func newNamespace(t *testing.T) string {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
	if err := cluster.Create(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	return namespace.Name
}

func change(t *testing.T, fn *v1beta1.Function, edit func(*v1beta1.Function)) {
	t.Helper()
	now := get(t, fn)
	patch := client.MergeFrom(now.DeepCopy())
	edit(now)
	if err := cluster.Patch(t.Context(), now, patch); err != nil {
		t.Fatal(err)
	}
}

// overwrite writes an object over whatever it has become since it was read.
func overwrite(t *testing.T, object client.Object) {
	t.Helper()
	object.SetResourceVersion("")
	if err := cluster.Update(t.Context(), object); err != nil {
		t.Fatal(err)
	}
}

func get(t *testing.T, fn *v1beta1.Function) *v1beta1.Function {
	t.Helper()
	var now v1beta1.Function
	if err := cluster.Get(t.Context(), client.ObjectKeyFromObject(fn), &now); err != nil {
		t.Fatal(err)
	}
	return &now
}

func has(t *testing.T, fn *v1beta1.Function, condition string) bool {
	t.Helper()
	return meta.IsStatusConditionTrue(get(t, fn).Status.Conditions, condition)
}

// awaitReady waits until Ready has the reason for the latest generation.
func awaitReady(t *testing.T, fn *v1beta1.Function, reason string) metav1.Condition {
	t.Helper()
	var ready metav1.Condition
	eventually(t, "Ready has the reason "+reason, func() bool {
		now := get(t, fn)
		c := meta.FindStatusCondition(now.Status.Conditions, v1beta1.ConditionReady)
		if c == nil {
			return false
		}
		ready = *c
		return c.Reason == reason && c.ObservedGeneration == now.Generation
	})
	return ready
}

func exists(t *testing.T, fn *v1beta1.Function, name string, object client.Object) bool {
	t.Helper()
	err := cluster.Get(t.Context(), client.ObjectKey{Namespace: fn.Namespace, Name: name}, object)
	if client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	return err == nil
}

// await waits until an object is there and, where a condition is given, it holds.
func await[T client.Object](t *testing.T, fn *v1beta1.Function, name string, object T, holds func(T) bool) T {
	t.Helper()
	eventually(t, fmt.Sprintf("%T %s is as expected", object, name), func() bool {
		return exists(t, fn, name, object) && (holds == nil || holds(object))
	})
	return object
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(3 * time.Minute)
	for !holds() {
		if time.Now().After(deadline) {
			t.Fatalf("not within three minutes: %s", what)
		}
		time.Sleep(20 * time.Millisecond)
	}
}
