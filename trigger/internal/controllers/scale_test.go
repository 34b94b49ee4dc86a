package controllers_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
	"goless.io/trigger/api/v1alpha1"
	"goless.io/trigger/internal/keda"
	"goless.io/trigger/internal/stream"
)

// KEDA scales the Function by the number of waiting events.
func TestScale(t *testing.T) {
	t.Parallel()
	trigger := natsTrigger(newNamespace(t))
	fn := newFunction(t, trigger.Namespace)
	change(t, fn, func(fn *v1beta1.Function) { fn.Spec.Replicas = new(int32(0)) })
	trigger.Spec.Scale = &v1alpha1.StreamScale{Min: new(int32(0)), Max: 5}
	create(t, trigger)
	object := keda.New()
	object.SetNamespace(trigger.Namespace)
	object.SetName(trigger.Name)
	eventually(t, "there is a ScaledObject", func() bool { return cluster.Get(t.Context(), client.ObjectKeyFromObject(object), object) == nil })
	read(t, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: trigger.Namespace, Name: "orders-lag"}})
	want := map[string]any{
		"scaleTargetRef":  map[string]any{"apiVersion": "goless.io/v1beta1", "kind": "Function", "name": "report"},
		"minReplicaCount": int64(0), "maxReplicaCount": int64(5),
		"triggers": []any{map[string]any{"type": "metrics-api", "metadata": map[string]any{
			"url": "http://orders-lag." + trigger.Namespace + ".svc:9090/status", "valueLocation": "lag", "targetValue": "100",
		}}},
	}
	if diff := cmp.Diff(want, object.Object["spec"]); diff != "" {
		t.Errorf("the spec (-want +got):\n%s", diff)
	}
	// KEDA has stopped the Function while no events wait, which is not a problem.
	newConsumingPod(t).running(t, trigger, true)
	if message := await(t, trigger, v1alpha1.ConditionReady, v1alpha1.ReasonScaleNotReady); !strings.Contains(message, "has not been processed by the operator of KEDA yet") {
		t.Error(message)
	}
	kedaReports(t, object, map[string]string{"Ready": "True", "Paused": "False"})
	await(t, trigger, v1alpha1.ConditionReady, v1alpha1.ReasonReady)

	// In the desired state nothing is written, whatever KEDA writes.
	change(t, object, func(o *unstructured.Unstructured) {
		o.SetFinalizers([]string{"finalizer.keda.sh"})
		o.SetLabels(map[string]string{"scaledobject.keda.sh/name": "orders", v1alpha1.TriggerLabel: "orders", v1alpha1.KindLabel: "NATSTrigger"})
	})
	before := writes.in(trigger.Namespace)
	change(t, fn, func(fn *v1beta1.Function) { fn.Spec.Replicas = new(int32(1)) })
	report(t, fn, func(fn *v1beta1.Function) {
		meta.SetStatusCondition(&fn.Status.Conditions, metav1.Condition{Type: v1beta1.ConditionAvailable, Status: metav1.ConditionFalse, Reason: v1beta1.ReasonNoReadyReplica})
	})
	await(t, trigger, v1alpha1.ConditionReady, v1alpha1.ReasonFunctionUnavailable)
	for _, write := range writes.in(trigger.Namespace)[len(before):] {
		if strings.Contains(write, "/scaledobjects/") || strings.Contains(write, "/services/") || strings.Contains(write, "/deployments/") {
			t.Errorf("it has written %s", write)
		}
	}

	change(t, fn, func(fn *v1beta1.Function) { fn.Spec.Scaling = &v1beta1.Scaling{} })
	if message := await(t, trigger, v1alpha1.ConditionStalled, v1alpha1.ReasonInvalidSpec); !strings.Contains(message, "spec.scaling") {
		t.Error(message)
	}
	eventually(t, "the ScaledObject is being removed", func() bool {
		err := cluster.Get(t.Context(), client.ObjectKeyFromObject(object), object)
		return err != nil || object.GetDeletionTimestamp() != nil
	})
}

// kedaReports sets the conditions of a ScaledObject, in place of KEDA.
func kedaReports(t *testing.T, object *unstructured.Unstructured, conditions map[string]string) {
	t.Helper()
	report(t, object, func(o *unstructured.Unstructured) {
		var list []any
		for kind, status := range conditions {
			list = append(list, map[string]any{"type": kind, "status": status, "reason": "Tested", "message": kind + " is " + status})
		}
		if err := unstructured.SetNestedSlice(o.Object, list, "status", "conditions"); err != nil {
			t.Fatal(err)
		}
	})
}

// There is no ScaledObject before the Function exists, because KEDA would not notice for up to 17
// minutes that it exists.
func TestScaleWithoutFunction(t *testing.T) {
	t.Parallel()
	trigger := natsTrigger(newNamespace(t))
	trigger.Spec.Scale = &v1alpha1.StreamScale{Max: 5}
	create(t, trigger)
	await(t, trigger, v1alpha1.ConditionReady, v1alpha1.ReasonFunctionNotFound)
	read(t, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: trigger.Namespace, Name: "orders-lag"}})
	if err := cluster.Get(t.Context(), client.ObjectKeyFromObject(trigger), keda.New()); !apierrors.IsNotFound(err) {
		t.Errorf("there is a ScaledObject without a Function: %v", err)
	}
	newFunction(t, trigger.Namespace)
	eventually(t, "there is a ScaledObject", func() bool {
		return cluster.Get(t.Context(), client.ObjectKeyFromObject(trigger), keda.New()) == nil
	})
}

// KEDA does not scale a Function by a ScaledObject that is paused, not ready or being deleted, and
// the status says so.
func TestScaleState(t *testing.T) {
	t.Parallel()
	trigger := natsTrigger(newNamespace(t))
	newFunction(t, trigger.Namespace)
	trigger.Spec.Scale = &v1alpha1.StreamScale{Max: 5}
	create(t, trigger)
	object := keda.New()
	object.SetNamespace(trigger.Namespace)
	object.SetName(trigger.Name)
	eventually(t, "there is a ScaledObject", func() bool { return cluster.Get(t.Context(), client.ObjectKeyFromObject(object), object) == nil })
	newConsumingPod(t).running(t, trigger, true)
	says := func(reason, want string) {
		t.Helper()
		eventually(t, "the message contains "+want, func() bool {
			return strings.Contains(await(t, trigger, v1alpha1.ConditionReady, reason), want)
		})
	}
	says(v1alpha1.ReasonScaleNotReady, "has not been processed")
	kedaReports(t, object, map[string]string{"Ready": "False", "HPAActive": "True", "Paused": "False"})
	says(v1alpha1.ReasonScaleNotReady, "is not ready: Ready is False")
	kedaReports(t, object, map[string]string{"Ready": "True", "HPAActive": "False", "Paused": "False"})
	says(v1alpha1.ReasonScaleNotReady, "is not active: HPAActive is False")
	kedaReports(t, object, map[string]string{"Ready": "True", "HPAActive": "False", "Paused": "True"})
	says(v1alpha1.ReasonReady, "scaling is paused by an annotation of ScaledObject \"orders\"")
	kedaReports(t, object, map[string]string{"Ready": "True", "HPAActive": "True", "Paused": "False"})
	says(v1alpha1.ReasonReady, "the trigger is set up")

	change(t, object, func(o *unstructured.Unstructured) { o.SetFinalizers([]string{"finalizer.keda.sh"}) })
	if err := cluster.Delete(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	says(v1alpha1.ReasonScaleNotReady, "has not removed its finalizers: finalizer.keda.sh")
	change(t, object, func(o *unstructured.Unstructured) { o.SetFinalizers(nil) })
	eventually(t, "there is a new ScaledObject", func() bool {
		again := keda.New()
		return cluster.Get(t.Context(), client.ObjectKeyFromObject(object), again) == nil && again.GetUID() != object.GetUID()
	})
}

// The ScaledObject has no more replicas than concurrent requests, and the status reports that
// limit.
func TestScaleLimit(t *testing.T) {
	t.Parallel()
	pod, trigger := newConsumingPod(t), kafkaTrigger(newNamespace(t))
	newFunction(t, trigger.Namespace)
	trigger.Spec.Scale = &v1alpha1.StreamScale{Max: 20}
	create(t, trigger)
	object := keda.New()
	object.SetNamespace(trigger.Namespace)
	object.SetName(trigger.Name)
	most := func(want int64) {
		t.Helper()
		eventually(t, fmt.Sprintf("the ScaledObject has at most %d replicas", want), func() bool {
			if cluster.Get(t.Context(), client.ObjectKeyFromObject(object), object) != nil {
				return false
			}
			got, _, _ := unstructured.NestedInt64(object.Object, "spec", "maxReplicaCount")
			return got == want
		})
	}
	most(16) // the default of spec.concurrency
	pod.says(stream.Status{Partitions: 3})
	pod.running(t, trigger, true)
	most(3)
	kedaReports(t, object, map[string]string{"Ready": "True"})
	message := await(t, trigger, v1alpha1.ConditionReady, v1alpha1.ReasonReady)
	if want := "up to 3 replicas instead of spec.scale.max, 20: the number of partitions of the topic is 3"; !strings.Contains(message, want) {
		t.Errorf("the message is %q, want %q in it", message, want)
	}
	// The number of partitions is kept when the pod is lost.
	pod.says(stream.Status{Problems: []stream.Problem{{Reason: stream.NotConnected, Message: "not connected to the servers yet"}}})
	pod.running(t, trigger, false)
	await(t, trigger, v1alpha1.ConditionReady, v1alpha1.ReasonNotConnected)
	most(3)
}

// The oldest of several triggers of any kind scales a Function. If it is deleted or loses scale,
// another one does.
func TestScaleConflict(t *testing.T) {
	t.Parallel()
	first := kafkaTrigger(newNamespace(t))
	newFunction(t, first.Namespace)
	second := natsTrigger(first.Namespace)
	first.Spec.Scale, second.Spec.Scale = &v1alpha1.StreamScale{Max: 5}, &v1alpha1.StreamScale{Max: 5}
	create(t, first)
	create(t, second)
	scales := func(trigger v1alpha1.Trigger, want bool) {
		t.Helper()
		eventually(t, fmt.Sprintf("%s has a ScaledObject: %t", trigger.GetName(), want), func() bool {
			object := keda.New()
			err := cluster.Get(t.Context(), client.ObjectKeyFromObject(trigger), object)
			return (err == nil) == want
		})
	}
	refused := func() {
		t.Helper()
		message := await(t, second, v1alpha1.ConditionReady, v1alpha1.ReasonScaleConflict)
		if want := `can scale Function "report", which is KafkaTrigger "records"`; !strings.Contains(message, want) {
			t.Errorf("the message is %q, want %q in it", message, want)
		}
		scales(first, true)
		scales(second, false)
	}
	refused()
	change(t, first, func(t *v1alpha1.KafkaTrigger) { t.Spec.Scale = nil })
	await(t, second, v1alpha1.ConditionReady, v1alpha1.ReasonConsumerNotReady)
	scales(second, true)
	scales(first, false)
	change(t, first, func(t *v1alpha1.KafkaTrigger) { t.Spec.Scale = &v1alpha1.StreamScale{Max: 5} })
	refused()
	if err := cluster.Delete(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	await(t, second, v1alpha1.ConditionReady, v1alpha1.ReasonConsumerNotReady)
	scales(second, true)
}

// What a stolen token cannot do with the Services and ScaledObjects of triggers.
func TestAccessPolicyOfScale(t *testing.T) {
	t.Parallel()
	trigger := natsTrigger(newNamespace(t))
	newFunction(t, trigger.Namespace)
	trigger.Spec.Scale = &v1alpha1.StreamScale{Max: 5}
	create(t, trigger)
	service, scaled := &corev1.Service{}, keda.New()
	eventually(t, "there is a ScaledObject", func() bool {
		return cluster.Get(t.Context(), client.ObjectKeyFromObject(trigger), scaled) == nil
	})
	if err := cluster.Get(t.Context(), client.ObjectKey{Namespace: trigger.Namespace, Name: "orders-lag"}, service); err != nil {
		t.Fatal(err)
	}
	for name, edit := range map[string]func(*corev1.Service){
		"Owner":    func(s *corev1.Service) { s.OwnerReferences = nil },
		"Selector": func(s *corev1.Service) { s.Spec.Selector = map[string]string{"app": "bank"} },
		"External": func(s *corev1.Service) { s.Spec.ExternalIPs = []string{"192.0.2.7"} },
		"NodePort": func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeNodePort },
		"Port":     func(s *corev1.Service) { s.Spec.Ports[0].Port = 443 },
	} {
		t.Run(name, func(t *testing.T) {
			changed := service.DeepCopy()
			edit(changed)
			if err := account.Patch(t.Context(), changed, client.MergeFrom(service), client.DryRunAll); !denied(err) {
				t.Errorf("it may be changed: %v", err)
			}
		})
	}
	for name, edit := range map[string]func(map[string]any, map[string]any){
		"Target": func(spec, _ map[string]any) {
			spec["scaleTargetRef"] = map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "name": "bank"}
		},
		"Scaler": func(_, trigger map[string]any) { trigger["type"] = "cron" },
		"URL":    func(_, trigger map[string]any) { trigger["metadata"].(map[string]any)["url"] = "http://evil.example/" },
		"Login":  func(_, trigger map[string]any) { trigger["authenticationRef"] = map[string]any{"name": "bank"} },
	} {
		t.Run(name, func(t *testing.T) {
			changed := scaled.DeepCopy()
			spec := changed.Object["spec"].(map[string]any)
			edit(spec, spec["triggers"].([]any)[0].(map[string]any))
			if err := account.Patch(t.Context(), changed, client.MergeFrom(scaled), client.DryRunAll); !denied(err) {
				t.Errorf("it may be changed: %v", err)
			}
		})
	}
	foreign := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: trigger.Namespace, Name: "foreign"}, Spec: corev1.ServiceSpec{Ports: service.Spec.Ports}}
	create(t, foreign)
	if err := account.Delete(t.Context(), foreign, client.DryRunAll); !denied(err) {
		t.Errorf("the Service of somebody else may be deleted: %v", err)
	}
}
