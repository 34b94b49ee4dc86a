package function_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/apiservertest"
	"goless.io/operator/internal/desired"
)

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
		t.Errorf("the ConfigMap contains %q, immutable %v", got, source.Immutable)
	}
	if got := service.Spec.Ports[0].Port; got != 9000 {
		t.Errorf("the Service has port %d", got)
	}
	ready := awaitReady(t, fn, v1beta1.ReasonBuilding)
	if ready.Status != metav1.ConditionFalse || !has(t, fn, v1beta1.ConditionReconciling) {
		t.Errorf("before any pod: Ready is %v", ready)
	}
	eventually(t, "status refers to the Service", func() bool {
		status := get(t, fn).Status
		return status.Service == "svc" && status.URL == fmt.Sprintf("http://svc.%s.svc:9000", fn.Namespace)
	})
	if status := get(t, fn).Status; status.LatestRevision != revision || status.Selector != "goless.io/function=children" {
		t.Errorf("status is %+v", status)
	}
}

// After a Function has converged, events that do not change it cause no writes.
func TestUnchangedFunctionCausesNoWrites(t *testing.T) {
	t.Run("Replicas", func(t *testing.T) { causesNoWrites(t, create(t, "quiet", apiservertest.EveryField)) })
	t.Run("Scaling", func(t *testing.T) {
		fn := create(t, "scaled", func(fn *v1beta1.Function) {
			apiservertest.EveryField(fn)
			fn.Spec.Scaling = &v1beta1.Scaling{Min: new(int32(0)), Max: new(int32(7)), CPU: new(resource.MustParse("0.25"))}
		})
		await(t, fn, fn.Name, &autoscalingv2.HorizontalPodAutoscaler{}, ownedByApply)
		causesNoWrites(t, fn)
	})
}

func causesNoWrites(t *testing.T, fn *v1beta1.Function) {
	t.Helper()
	deployment := await(t, fn, fn.Name, &appsv1.Deployment{}, ownedByApply)
	await(t, fn, "svc", &corev1.Service{}, ownedByApply)
	await(t, fn, fn.Name+"-"+desired.Revision(hello), &corev1.ConfigMap{}, ownedByApply)
	await(t, fn, fn.Name, &policyv1.PodDisruptionBudget{}, ownedByApply)
	eventually(t, "status complete", func() bool { now := get(t, fn).Status; return now.URL != "" && len(now.Revisions) == 1 })

	var before []string
	for i := range 6 {
		if i == 1 {
			before = about(writes.all(), fn)
		}
		// A field of another owner causes an event.
		seen := reconciles(t)
		patch := client.MergeFrom(deployment.DeepCopy())
		metav1.SetMetaDataAnnotation(&deployment.ObjectMeta, "somebody", fmt.Sprint(i))
		if err := cluster.Patch(t.Context(), deployment, patch); err != nil {
			t.Fatal(err)
		}
		eventually(t, "operator reconciles again", func() bool { return reconciles(t) > seen })
	}
	if diff := cmp.Diff(before, about(writes.all(), fn)); diff != "" {
		t.Errorf("unexpected writes:\n%s", diff)
	}
}

// All objects that conflict with the names of the Function's objects are reported at once.
func TestAllThatIsInTheWayIsNamed(t *testing.T) {
	namespace := apiservertest.NewNamespace(t, cluster)
	fn := template("orphaned")
	left := metav1.ObjectMeta{Namespace: namespace, Labels: map[string]string{desired.FunctionLabel: fn.Name}}
	source, deployment, service := &corev1.ConfigMap{ObjectMeta: left}, &appsv1.Deployment{ObjectMeta: left}, &corev1.Service{ObjectMeta: left}
	source.Name, deployment.Name, service.Name = sourceOf(fn, hello), fn.Name, fn.Spec.Service
	service.Spec.Ports = []corev1.ServicePort{{Port: 1}}
	deployment.Spec.Selector = &metav1.LabelSelector{MatchLabels: left.Labels}
	deployment.Spec.Template = corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: left.Labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "function", Image: "former"}}}}
	for _, object := range []client.Object{source, deployment, service} {
		if err := cluster.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	fn = create(t, fn.Name, func(fn *v1beta1.Function) { fn.Namespace = namespace })
	ready := awaitReady(t, fn, v1beta1.ReasonNotOwned)
	for _, name := range []string{fmt.Sprintf("ConfigMap %q", source.Name), `Deployment "orphaned"`, `Service "svc"`} {
		if !strings.Contains(ready.Message, name+" was not created for this Function by its operator and is not changed; delete it if it is not needed (kubectl -n "+namespace+" delete ") {
			t.Errorf("message %q does not contain %s", ready.Message, name)
		}
	}
}

// The operator does not undo kubectl rollout restart.
func TestRolloutRestart(t *testing.T) {
	fn := create(t, "restarted", func(*v1beta1.Function) {})
	serve(t, fn)
	restart := client.RawPatch(types.StrategicMergePatchType, []byte(`{"spec":{"template":{"metadata":{"annotations":{"kubectl.kubernetes.io/restartedAt":"2026-11-23T12:00:00Z"}}}}}`))
	deployment := await(t, fn, fn.Name, &appsv1.Deployment{}, ownedByApply)
	if err := cluster.Patch(t.Context(), deployment, restart, client.FieldOwner("kubectl-rollout")); err != nil {
		t.Fatal(err)
	}
	restarted := deployment.Generation
	unready(t, fn)
	awaitReady(t, fn, v1beta1.ReasonBuilding)
	serve(t, fn)
	if now := await(t, fn, fn.Name, &appsv1.Deployment{}, nil); now.Generation != restarted {
		t.Errorf("the operator has changed the Deployment after the restart: generation %d, previously %d", now.Generation, restarted)
	}
	change(t, fn, func(fn *v1beta1.Function) { fn.Spec.Concurrency = 3 })
	await(t, fn, fn.Name, deployment, func(d *appsv1.Deployment) bool {
		return slices.Contains(d.Spec.Template.Spec.Containers[0].Env, corev1.EnvVar{Name: "REQUEST_CONCURRENCY", Value: "3"})
	})
	if deployment.Spec.Template.Annotations["kubectl.kubernetes.io/restartedAt"] == "" {
		t.Error("the next rollout reverted the restart")
	}
}

// A user with access to ConfigMaps stores another source under the name of a future revision.
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

// Fields that another client has added to the objects of a function are kept, and the access policy
// allows the operator to update other fields.
func TestAdditionsStay(t *testing.T) {
	fn := create(t, "added", func(*v1beta1.Function) {})
	deployment := await(t, fn, fn.Name, &appsv1.Deployment{}, ownedByApply)
	service := await(t, fn, "svc", &corev1.Service{}, ownedByApply)
	before, beforeService := client.MergeFrom(deployment.DeepCopy()), client.MergeFrom(service.DeepCopy())
	pod := &deployment.Spec.Template.Spec
	pod.Containers = append(pod.Containers, corev1.Container{Name: "agent", Image: "somebody/agent", Command: []string{"agent"}})
	pod.Volumes = append(pod.Volumes, corev1.Volume{Name: "host", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/var/log"}}})
	service.Spec.ExternalIPs = []string{"203.0.113.1"}
	if err := errors.Join(cluster.Patch(t.Context(), deployment, before), cluster.Patch(t.Context(), service, beforeService)); err != nil {
		t.Fatal(err)
	}
	change(t, fn, func(fn *v1beta1.Function) { fn.Spec.Concurrency, fn.Spec.ServerPort = 3, 9001 })
	await(t, fn, fn.Name, deployment, func(d *appsv1.Deployment) bool {
		c := d.Spec.Template.Spec.Containers
		return len(c) == 2 && c[1].Name == "agent" && slices.Contains(c[0].Env, corev1.EnvVar{Name: "REQUEST_CONCURRENCY", Value: "3"})
	})
	await(t, fn, "svc", service, func(s *corev1.Service) bool { return s.Spec.Ports[0].Port == 9001 && len(s.Spec.ExternalIPs) == 1 })
}
