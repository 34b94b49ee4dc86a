package faults

import (
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// lay creates decoys: objects that resemble those of the Function but do not belong to it. They
// must never change.
func (tr *trial) lay() {
	tr.t.Helper()
	labels := map[string]string{"goless.io/function": subject, "app.kubernetes.io/managed-by": "goless"}
	named := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: tr.ns, Name: name, Labels: labels}
	}
	stranger := &corev1.ConfigMap{ObjectMeta: named(subject + "-0000000000"), Data: map[string]string{"handler.go": third}}
	stranger.Labels["goless.io/revision"] = "0000000000"
	tr.must(world(tr.t).client.Create(tr.t.Context(), stranger))
	// The owner exists, so that the garbage collector ignores the object.
	owned := &corev1.ConfigMap{ObjectMeta: named(subject + "-1111111111")}
	owned.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: "v1", Kind: "ConfigMap", Name: stranger.Name, UID: stranger.UID, Controller: new(true),
	}}
	service := &corev1.Service{ObjectMeta: named("decoy")}
	service.Spec.Selector = map[string]string{"goless.io/function": subject}
	service.Spec.Ports = []corev1.ServicePort{{Port: 80}}
	deployment := &appsv1.Deployment{ObjectMeta: named(subject + "-decoy")}
	deployment.Spec = appsv1.DeploymentSpec{
		Replicas: new(int32(0)),
		Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"decoy": "yes"}},
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"decoy": "yes"}},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "decoy", Image: "example.com/decoy"}}},
		},
	}
	tr.decoy = []client.Object{stranger, owned, service, deployment}
	for _, object := range tr.decoy[1:] {
		tr.must(world(tr.t).client.Create(tr.t.Context(), object))
	}
}

// untouched fails the test if a decoy has changed.
func (tr *trial) untouched() {
	tr.t.Helper()
	for _, want := range tr.decoy {
		got := want.DeepCopyObject().(client.Object)
		if err := world(tr.t).client.Get(tr.t.Context(), client.ObjectKeyFromObject(want), got); err != nil {
			tr.t.Errorf("%s: a foreign %T: %v", tr.ns, want, err)
			continue
		}
		ignored := cmp.Options{cmpopts.IgnoreFields(metav1.ObjectMeta{}, "ManagedFields")}
		if _, ok := want.(*appsv1.Deployment); ok { // whose controller writes its status
			ignored = append(ignored, cmpopts.IgnoreFields(appsv1.Deployment{}, "Status"),
				cmpopts.IgnoreFields(metav1.ObjectMeta{}, "ResourceVersion", "Annotations"))
		}
		if diff := cmp.Diff(want, got, ignored); diff != "" {
			tr.t.Errorf("%s: a foreign %T was changed:\n%s", tr.ns, want, diff)
		}
	}
}
