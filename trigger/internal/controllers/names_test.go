package controllers_test

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/trigger/api/v1alpha1"
)

// ownedDeployment creates a Deployment as a controller of another owner does.
func ownedDeployment(t *testing.T, namespace, name string, labels map[string]string, owner metav1.OwnerReference) *appsv1.Deployment {
	t.Helper()
	owner.Controller = new(true)
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels, OwnerReferences: []metav1.OwnerReference{owner}},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "registry.example/c"}}},
			},
		},
	}
	create(t, d)
	report(t, d, func(d *appsv1.Deployment) {
		d.Status.ObservedGeneration, d.Status.Replicas, d.Status.UpdatedReplicas, d.Status.ReadyReplicas = d.Generation, 1, 1, 1
	})
	return d
}

// ofFunction creates the Deployment of a Function that serves.
func ofFunction(t *testing.T, namespace, name string) *appsv1.Deployment {
	t.Helper()
	return ownedDeployment(t, namespace, name, map[string]string{"goless.io/function": name},
		metav1.OwnerReference{APIVersion: "goless.io/v1beta1", Kind: "Function", Name: name, UID: "f"})
}

// A trigger and a Function of the same name do not need objects of the same name.
func TestNameOfFunction(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	newFunction(t, namespace)
	for _, trigger := range []v1alpha1.Trigger{natsTrigger(namespace), kafkaTrigger(namespace)} {
		ofFunction(t, namespace, trigger.GetName())
		create(t, trigger)
		await(t, trigger, v1alpha1.ConditionReady, v1alpha1.ReasonConsumerNotReady)
		deployment := deploymentOf(trigger)
		if read(t, deployment); !metav1.IsControlledBy(deployment, trigger) {
			t.Errorf("Deployment %s does not belong to the trigger", deployment.Name)
		}
	}
}

// A Deployment of another owner is not changed, and its readiness does not affect the trigger. The
// message does not suggest to delete what its owner would recreate.
func TestForeignDeployment(t *testing.T) {
	t.Parallel()
	trigger := natsTrigger(newNamespace(t))
	newFunction(t, trigger.Namespace)
	foreign := ofFunction(t, trigger.Namespace, deploymentOf(trigger).Name)
	create(t, trigger)
	message := await(t, trigger, v1alpha1.ConditionReady, v1alpha1.ReasonNotOwned)
	if want := `Deployment "orders-trigger" belongs to Function "orders-trigger" and is not changed; rename the trigger`; message != want {
		t.Errorf("the message is %q, want %q", message, want)
	}
	// With the labels of the trigger it is in the cache.
	change(t, foreign, func(d *appsv1.Deployment) {
		d.Labels[v1alpha1.TriggerLabel], d.Labels[v1alpha1.KindLabel] = trigger.Name, "NATSTrigger"
	})
	change(t, trigger, func(t *v1alpha1.NATSTrigger) { t.Spec.Concurrency = 2 })
	await(t, trigger, v1alpha1.ConditionReady, v1alpha1.ReasonNotOwned)
	if meta.IsStatusConditionTrue(trigger.Status.Conditions, v1alpha1.ConditionDelivered) {
		t.Error("Delivered is true by the readiness of a foreign Deployment")
	}
}

// former creates a trigger and its Deployment as created by an earlier version.
func former(t *testing.T, trigger *v1alpha1.NATSTrigger) *appsv1.Deployment {
	t.Helper()
	trigger.Spec.DeadLetter = "orders.dead" // invalid, so that nothing is created yet
	create(t, trigger)
	await(t, trigger, v1alpha1.ConditionReady, v1alpha1.ReasonInvalidSpec)
	return ownedDeployment(t, trigger.Namespace, trigger.Name, map[string]string{v1alpha1.TriggerLabel: trigger.Name, v1alpha1.KindLabel: "NATSTrigger"},
		metav1.OwnerReference{APIVersion: "goless.io/v1alpha1", Kind: "NATSTrigger", Name: trigger.Name, UID: trigger.UID})
}

// The Deployment of an earlier version and its pods are deleted before the new one has a replica.
func TestFormerDeployment(t *testing.T) {
	t.Parallel()
	trigger := natsTrigger(newNamespace(t))
	newFunction(t, trigger.Namespace)
	old, now := former(t, trigger), deploymentOf(trigger)
	change(t, trigger, func(t *v1alpha1.NATSTrigger) { t.Spec.DeadLetter = "" })
	eventually(t, "the former Deployment is being deleted after its pods", func() bool {
		read(t, old)
		return old.DeletionTimestamp != nil && slices.Contains(old.Finalizers, metav1.FinalizerDeleteDependents)
	})
	if read(t, now); *now.Spec.Replicas != 0 {
		t.Error("there are two Deployments with replicas")
	}
	change(t, trigger, func(t *v1alpha1.NATSTrigger) { t.Spec.Concurrency = 2 })
	eventually(t, "the change is applied", func() bool {
		read(t, now)
		return slices.Contains(now.Spec.Template.Spec.Containers[0].Args, "--concurrency=2")
	})
	if *now.Spec.Replicas != 0 {
		t.Error("there are two Deployments with replicas")
	}
	change(t, old, func(d *appsv1.Deployment) { d.Finalizers = nil }) // as the garbage collector does
	eventually(t, "the new Deployment has a replica", func() bool { read(t, now); return *now.Spec.Replicas == 1 })
}

// The Deployment of an earlier version keeps consuming while the new one cannot be created.
func TestFormerDeploymentStays(t *testing.T) {
	t.Parallel()
	trigger := natsTrigger(newNamespace(t))
	newFunction(t, trigger.Namespace)
	old := former(t, trigger)
	ofFunction(t, trigger.Namespace, deploymentOf(trigger).Name)
	change(t, trigger, func(t *v1alpha1.NATSTrigger) { t.Spec.DeadLetter = "" })
	await(t, trigger, v1alpha1.ConditionReady, v1alpha1.ReasonNotOwned)
	if read(t, old); old.DeletionTimestamp != nil {
		t.Error("it is deleted")
	}
}

// Only a Deployment with the name of its trigger may be deleted.
func TestPolicyOfDeletion(t *testing.T) {
	t.Parallel()
	trigger := natsTrigger(newNamespace(t))
	fn := ofFunction(t, trigger.Namespace, "serving")
	old := former(t, trigger)
	eventually(t, "the access policy is in force", func() bool {
		err := account.Delete(t.Context(), fn, client.DryRunAll)
		return err != nil && strings.Contains(err.Error(), "deploy/60-triggers.yaml")
	})
	if err := account.Delete(t.Context(), old, client.DryRunAll); err != nil {
		t.Error(err)
	}
}
