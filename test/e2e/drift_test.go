package e2e

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
)

// An edit is what somebody does to an object that belongs to a Function.
type edit struct {
	name string
	make func(client.Object)
}

// edit says what is done to objects of one kind.
func editing[T client.Object](name string, do func(T)) edit {
	return edit{name, func(object client.Object) { do(object.(T)) }}
}

var anyEdits = []edit{
	{"a label is removed", func(o client.Object) { o.SetLabels(nil) }},
	{"a label is changed", func(o client.Object) { o.GetLabels()[functionLabel] = "somebody-elses" }},
	{"the owner no longer blocks", func(o client.Object) { o.GetOwnerReferences()[0].BlockOwnerDeletion = new(false) }},
}

var deploymentEdits = []edit{
	editing("image", func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = "somebody" }),
	editing("builder", func(d *appsv1.Deployment) { d.Spec.Template.Spec.InitContainers[0].Args[0] = "validate" }),
	editing("environment", func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Env[0].Value = "1" }),
	editing("no environment", func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Env = nil }),
	editing("replicas", func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(3)) }),
	editing("stopped", func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(0)) }),
	editing("label of pods", func(d *appsv1.Deployment) { d.Spec.Template.Labels[revisionLabel] = "0123456789" }),
	editing("source", func(d *appsv1.Deployment) { d.Spec.Template.Spec.Volumes[0].ConfigMap.Name = "somebody" }),
	editing("probe", func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].ReadinessProbe = nil }),
	editing("security", func(d *appsv1.Deployment) {
		d.Spec.Template.Spec.Containers[0].SecurityContext.ReadOnlyRootFilesystem = new(false)
	}),
	editing("strategy", func(d *appsv1.Deployment) {
		d.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
	}),
}

var serviceEdits = []edit{
	editing("selector", func(s *corev1.Service) { s.Spec.Selector = map[string]string{"app": "somebody"} }),
	editing("port", func(s *corev1.Service) { s.Spec.Ports[0].Port = 81 }),
	editing("target port", func(s *corev1.Service) { s.Spec.Ports[0].TargetPort = intstr.FromInt32(81) }),
	editing("no metrics", func(s *corev1.Service) { s.Spec.Ports = s.Spec.Ports[:1] }),
	editing("type", func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeNodePort }),
}

// What somebody changes about the objects of a Function is changed back.
func TestEditedChildren(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	fn := ns.ready(ns.apply(function("edited", answering("as it was"))))
	source := fn.Name + "-" + fn.Status.LatestRevision

	undone(ns, get(ns, fn.Name, &appsv1.Deployment{}), slices.Concat(anyEdits, deploymentEdits), func(d *appsv1.Deployment) any { return d.Spec })
	undone(ns, get(ns, fn.Name, &corev1.Service{}), slices.Concat(anyEdits, serviceEdits), func(s *corev1.Service) any { return s.Spec })
	undone(ns, get(ns, source, &corev1.ConfigMap{}), anyEdits, func(c *corev1.ConfigMap) any { return c.Data })

	fn = ns.ready(fn)
	ns.answers(fn, "as it was")
}

// undone makes edits, one after the other, and waits for each to be taken back.
func undone[T client.Object](ns *namespace, object T, edits []edit, content func(T) any) {
	ns.t.Helper()
	original := object.DeepCopyObject().(T)
	for _, edit := range edits {
		edited := get(ns, object.GetName(), object.DeepCopyObject().(T))
		before := edited.DeepCopyObject().(client.Object)
		edit.make(edited)
		if err := ns.client.Patch(ns.t.Context(), edited, client.MergeFrom(before), client.FieldOwner("somebody")); err != nil {
			ns.t.Fatalf("%T: %s: %v", object, edit.name, err)
		}
		if edited.GetResourceVersion() == before.GetResourceVersion() {
			ns.t.Fatalf("%T: %s: this changed nothing", object, edit.name)
		}
		same := func(now T) bool {
			return now.GetUID() == original.GetUID() &&
				equality.Semantic.DeepEqual(now.GetLabels(), original.GetLabels()) &&
				equality.Semantic.DeepEqual(now.GetOwnerReferences(), original.GetOwnerReferences()) &&
				equality.Semantic.DeepEqual(content(now), content(original))
		}
		ns.eventually("the edit is undone: "+edit.name, func() error {
			now := get(ns, object.GetName(), object.DeepCopyObject().(T))
			if same(now) {
				return nil
			}
			return differs(cmp.Diff(content(original), content(now)))
		})
	}
}

type differs string

func (d differs) Error() string { return string(d) }

// What somebody deletes is made anew, and the function answers again.
func TestDeletedChildren(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	fn := ns.ready(ns.apply(function("robbed", answering("still here"))))
	ns.answers(fn, "still here")

	for _, find := range []func() client.Object{
		func() client.Object { return get(ns, fn.Name, &corev1.Service{}) },
		func() client.Object { return get(ns, fn.Name+"-"+fn.Status.LatestRevision, &corev1.ConfigMap{}) },
		func() client.Object { return ns.replicaSet(fn) },
		func() client.Object { return ns.pod(fn) },
		func() client.Object { return get(ns, fn.Name, &appsv1.Deployment{}) },
	} {
		child := find()
		if err := ns.client.Delete(t.Context(), child, client.PropagationPolicy("Background")); err != nil {
			t.Fatal(err)
		}
		ns.until("the deletion was seen", func() bool {
			for _, s := range ns.witness.all() {
				if s.object.GetUID() == child.GetUID() && (s.gone || s.object.GetDeletionTimestamp() != nil) {
					return true
				}
			}
			return false
		})
		ns.eventually("everything is there again", func() error {
			return ns.lacking(get(ns, fn.Name, &v1beta1.Function{}))
		})
		ns.answers(ns.ready(fn), "still here")
	}
}

// replicaSet is the one of a Function that has one revision.
func (ns *namespace) replicaSet(fn *v1beta1.Function) *appsv1.ReplicaSet {
	ns.t.Helper()
	var list appsv1.ReplicaSetList
	if err := ns.client.List(ns.t.Context(), &list, client.InNamespace(ns.name), client.MatchingLabels{functionLabel: fn.Name}); err != nil {
		ns.t.Fatal(err)
	}
	if len(list.Items) == 0 {
		ns.t.Fatalf("Function %s has no ReplicaSet", fn.Name)
	}
	return &list.Items[0]
}

// A Deployment that somebody paused does not follow a change of source. Pausing
// is a wish, so it is not undone; the status says what to do.
func TestPausedDeployment(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	fn := ns.ready(ns.apply(function("paused", answering("before"))))
	ns.kubectl("rollout", "pause", "deployment/paused")
	fn = ns.becomes(ns.change(fn, source(answering("after"))), "not ready because of the pause", func(fn *v1beta1.Function) bool {
		return strings.Contains(condition(fn, v1beta1.ConditionReconciling).Message, "kubectl rollout resume deployment/paused")
	})
	ns.answers(fn, "before")
	ns.agree(fn)
	ns.kubectl("rollout", "resume", "deployment/paused")
	ns.answers(ns.ready(fn), "after")
}

// A namespace without room for pods is named in the status, and nothing but room
// is needed to go on.
func TestQuotaIsNamed(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	quota := ns.quota("pods")
	fn := ns.becomes(ns.apply(function("crowded", answering("seated"))), "told of the quota", func(fn *v1beta1.Function) bool {
		return strings.Contains(condition(fn, v1beta1.ConditionReady).Message, "exceeded quota: "+quota.Name)
	})
	ns.agree(fn)
	if err := ns.client.Delete(t.Context(), quota); err != nil {
		t.Fatal(err)
	}
	ns.answers(ns.ready(fn), "seated")
}

// quota keeps objects of a kind out of the namespace, once it returns.
func (ns *namespace) quota(kind corev1.ResourceName) *corev1.ResourceQuota {
	ns.t.Helper()
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "full"}}
	quota.Spec.Hard = corev1.ResourceList{kind: resource.MustParse("0")}
	ns.create(quota)
	ns.eventually("the quota holds", func() error {
		if len(get(ns, quota.Name, quota).Status.Hard) == 0 {
			return differs("it has no status")
		}
		return nil
	})
	return quota
}

// An object that somebody takes out of our hands is somebody's, and is not
// written any more: the status says so until it is gone.
func TestDisownedChild(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	fn := ns.ready(ns.apply(function("disowned", answering("mine"))))
	ns.kubectl("patch", "service", fn.Name, "--type=json", `--patch=[{"op":"remove","path":"/metadata/ownerReferences"}]`)
	before := ns.rawService(fn.Name)
	fn = ns.becomes(fn, "in conflict", func(fn *v1beta1.Function) bool {
		return condition(fn, v1beta1.ConditionStalled).Reason == v1beta1.ReasonServiceConflict
	})
	if diff := cmp.Diff(before, ns.rawService(fn.Name)); diff != "" {
		t.Errorf("the Service was written:\n%s", diff)
	}
	ns.kubectl("delete", "service", fn.Name)
	ns.answers(ns.ready(fn), "mine")
}
