package function_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/apiservertest"
	"goless.io/operator/internal/desired"
)

// childKinds contains the kinds of objects that the operator creates for a Function with
// spec.scaling.
var childKinds = []schema.GroupVersionKind{
	corev1.SchemeGroupVersion.WithKind("ConfigMap"), appsv1.SchemeGroupVersion.WithKind("Deployment"), corev1.SchemeGroupVersion.WithKind("Service"),
	policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget"), autoscalingv2.SchemeGroupVersion.WithKind("HorizontalPodAutoscaler"),
	appsv1.SchemeGroupVersion.WithKind("ControllerRevision"),
}

// children returns the objects of a Function.
func children(t *testing.T, fn *v1beta1.Function) (all []unstructured.Unstructured) {
	t.Helper()
	for _, kind := range childKinds {
		var list unstructured.UnstructuredList
		list.SetGroupVersionKind(kind)
		if err := cluster.List(t.Context(), &list, client.InNamespace(fn.Namespace), client.MatchingLabels{desired.FunctionLabel: fn.Name}); err != nil {
			t.Fatal(err)
		}
		all = append(all, list.Items...)
	}
	return all
}

// export waits until all objects of a Function exist, with two versions and their sources, and
// returns them as in a backup.
func export(t *testing.T, fn *v1beta1.Function) []unstructured.Unstructured {
	t.Helper()
	serve(t, fn)
	change(t, fn, func(fn *v1beta1.Function) { fn.Spec.Function = hello + "// newer\n" })
	await(t, fn, fn.Name, &appsv1.Deployment{}, func(d *appsv1.Deployment) bool {
		return desired.RevisionOf(&d.Spec.Template) == desired.Revision(hello+"// newer\n")
	})
	serve(t, fn)
	var all []unstructured.Unstructured
	eventually(t, "all objects exist", func() bool { all = children(t, fn); return len(all) == len(childKinds)+2 })
	return all
}

// restored restores an object like Velero: it creates the object without owners, status and cluster
// IPs, and then restores managedFields.
func restored(t *testing.T, object unstructured.Unstructured) {
	t.Helper()
	content := object.DeepCopy()
	managers := content.GetManagedFields()
	content.Object["metadata"] = map[string]any{"name": object.GetName(), "namespace": object.GetNamespace()}
	content.SetLabels(object.GetLabels())
	content.SetAnnotations(object.GetAnnotations())
	delete(content.Object, "status")
	if spec, ok := content.Object["spec"].(map[string]any); ok {
		delete(spec, "clusterIP")
		delete(spec, "clusterIPs")
	}
	if err := cluster.Create(t.Context(), content, client.FieldOwner("velero-server")); err != nil {
		t.Fatal(err)
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"managedFields": managers}})
	if err == nil {
		err = cluster.Patch(t.Context(), content, client.RawPatch(types.MergePatchType, patch), client.FieldOwner("velero-server"))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// After a backup and a restore of a namespace with the objects of its Functions, the Functions
// adopt their objects and no pod is replaced.
func TestExportAndImport(t *testing.T) {
	fn := create(t, "saved", scaling(2, 5))
	saved := export(t, fn)
	source := get(t, fn)
	remove(t, source)
	for _, object := range saved {
		remove(t, &object)
		restored(t, object)
	}
	again := &v1beta1.Function{ObjectMeta: metav1.ObjectMeta{Namespace: fn.Namespace, Name: fn.Name}, Spec: source.Spec}
	before := children(t, again)
	if err := cluster.Create(t.Context(), again); err != nil {
		t.Fatal(err)
	}
	awaitAdopted(t, again, before)
	change(t, again, func(fn *v1beta1.Function) { fn.Spec.Concurrency = 9 }) // the operator can still apply the objects
	await(t, again, fn.Name, &appsv1.Deployment{}, func(d *appsv1.Deployment) bool { return variable(d, "REQUEST_CONCURRENCY") == "9" })
}

// A Function adopts the objects that kubectl delete --cascade=orphan has left of a previous
// Function with its name.
func TestOrphansAreAdopted(t *testing.T) {
	fn := create(t, "orphaned", scaling(2, 5))
	export(t, fn)
	// There is no garbage collector, so the test removes the owner references and the finalizer.
	if err := cluster.Delete(t.Context(), get(t, fn), client.PropagationPolicy(metav1.DeletePropagationOrphan)); err != nil {
		t.Fatal(err)
	}
	for _, object := range children(t, fn) {
		patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"ownerReferences":null}}`))
		if err := cluster.Patch(t.Context(), &object, patch, client.FieldOwner("kube-controller-manager")); err != nil {
			t.Fatal(err)
		}
	}
	left := children(t, fn)
	if n := slices.IndexFunc(left, func(o unstructured.Unstructured) bool { return len(o.GetOwnerReferences()) > 0 }); n >= 0 {
		t.Fatalf("%s %s was adopted while its Function is being deleted", left[n].GetKind(), left[n].GetName())
	}
	if err := cluster.Patch(t.Context(), get(t, fn), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))); err != nil {
		t.Fatal(err)
	}
	again := &v1beta1.Function{ObjectMeta: metav1.ObjectMeta{Namespace: fn.Namespace, Name: fn.Name}, Spec: fn.Spec}
	again.Spec.Function = hello + "// newer\n"
	if err := cluster.Create(t.Context(), again); err != nil {
		t.Fatal(err)
	}
	awaitAdopted(t, again, left)
}

// awaitAdopted waits until objects belong to a Function, and checks that neither the objects nor
// the pods of the Deployment were replaced.
func awaitAdopted(t *testing.T, fn *v1beta1.Function, before []unstructured.Unstructured) {
	t.Helper()
	eventually(t, "objects owned by the Function", func() bool {
		return !slices.ContainsFunc(children(t, fn), func(o unstructured.Unstructured) bool { return !metav1.IsControlledBy(&o, fn) })
	})
	serve(t, fn)
	now := children(t, fn)
	if len(now) != len(before) {
		t.Errorf("%d objects, previously %d", len(now), len(before))
	}
	for i, o := range now {
		if o.GetUID() != before[i].GetUID() || o.GetKind() == "Deployment" && o.GetGeneration() != before[i].GetGeneration() {
			t.Errorf("%s %s was replaced or has another spec: generation %d, was %d", o.GetKind(), o.GetName(), o.GetGeneration(), before[i].GetGeneration())
		}
	}
}

// An object that the operator has not applied for a Function of this name, or that has another
// owner, is not adopted, whatever its labels. The status lists it with the command that deletes it.
// Available is Unknown, because pods of that object may answer requests.
func TestForeignObjectsAreNotAdopted(t *testing.T) {
	owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "owner"}}
	for name, forge := range map[string]func(*appsv1.Deployment) client.FieldOwner{
		"another-manager": func(*appsv1.Deployment) client.FieldOwner { return "kubectl" },
		"another-owner": func(d *appsv1.Deployment) client.FieldOwner {
			d.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID}}
			return desired.FieldOwner
		},
		"another-function": func(d *appsv1.Deployment) client.FieldOwner {
			d.Labels[desired.FunctionLabel] = "other"
			return desired.FieldOwner
		},
		"another-tool": func(d *appsv1.Deployment) client.FieldOwner {
			d.Labels["app.kubernetes.io/managed-by"] = "helm"
			return desired.FieldOwner
		},
	} {
		t.Run(name, func(t *testing.T) {
			namespace := apiservertest.NewNamespace(t, cluster)
			owner.Namespace, owner.UID, owner.ResourceVersion = namespace, "", ""
			if err := cluster.Create(t.Context(), owner); err != nil {
				t.Fatal(err)
			}
			theirs := foreignDeployment(namespace, name)
			applyServing(t, theirs, forge(theirs))
			fn := create(t, name, func(fn *v1beta1.Function) { fn.Namespace = namespace })
			message := awaitReady(t, fn, v1beta1.ReasonNotOwned).Message
			if want := fmt.Sprintf("(kubectl -n %s delete deployment %s)", namespace, name); !strings.Contains(message, want) {
				t.Errorf("message %q does not contain %q", message, want)
			}
			eventually(t, "Available is Unknown", func() bool {
				c := meta.FindStatusCondition(get(t, fn).Status.Conditions, v1beta1.ConditionAvailable)
				return c.Status == metav1.ConditionUnknown && c.Reason == v1beta1.ReasonNotOwned
			})
			if now := await(t, fn, name, &appsv1.Deployment{}, nil); now.ResourceVersion != theirs.ResourceVersion {
				t.Errorf("the Deployment was changed: %v", now.ManagedFields)
			}
		})
	}
}

// applyServing applies a Deployment and sets the status of one with a ready replica.
func applyServing(t *testing.T, d *appsv1.Deployment, manager client.FieldOwner) {
	t.Helper()
	if err := cluster.Patch(t.Context(), d, client.Apply, manager, client.ForceOwnership); err != nil { //nolint:staticcheck // of a typed object
		t.Fatal(err)
	}
	d.Status = appsv1.DeploymentStatus{Replicas: 1, ReadyReplicas: 1, AvailableReplicas: 1}
	if err := cluster.Status().Update(t.Context(), d); err != nil {
		t.Fatal(err)
	}
}

// foreignDeployment returns a Deployment with the labels of a Function's Deployment.
func foreignDeployment(namespace, name string) *appsv1.Deployment {
	ours := map[string]string{desired.FunctionLabel: name}
	d := &appsv1.Deployment{
		TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{
			desired.FunctionLabel: name, "app.kubernetes.io/managed-by": "goless",
		}},
	}
	d.Spec.Selector = &metav1.LabelSelector{MatchLabels: ours}
	d.Spec.Template = corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: ours}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "function", Image: "theirs"}}}}
	return d
}
