package main

import (
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
)

// plain deploys the program of a Function as users would deploy it, with a Deployment and a
// Service and the same probes. Few users disable the token of the account, which would remove
// the pod's only volume.
func (b *bench) plain(name string, token *bool) subject {
	return subject{
		name: name,
		objects: func(name string, _ int) []client.Object {
			deployment, service := b.plainObjects(name)
			deployment.Spec.Template.Spec.AutomountServiceAccountToken = token
			return []client.Object{deployment, service}
		},
		list:     &appsv1.DeploymentList{},
		ready:    isComplete,
		replicas: func(object client.Object, n int32) { object.(*appsv1.Deployment).Spec.Replicas = &n }, //nolint:forcetypeassert // as objects makes them
		second: func(object client.Object, _ int) {
			container := &object.(*appsv1.Deployment).Spec.Template.Spec.Containers[0] //nolint:forcetypeassert // as objects makes them
			container.Image = renamed(b.plainImage)
			container.Env = []corev1.EnvVar{{Name: "ANSWER", Value: secondAnswer}}
		},
	}
}

// renamed returns another name of an image.
func renamed(image string) string {
	repository, digest, _ := strings.Cut(image, "@")
	return repository + ":second@" + digest
}

// isComplete reports whether a Deployment is ready in the sense of a Function.
func isComplete(object client.Object) bool {
	d, ok := object.(*appsv1.Deployment)
	if !ok {
		return false
	}
	s, want := d.Status, *d.Spec.Replicas
	return s.ObservedGeneration >= d.Generation && s.UpdatedReplicas == want && s.Replicas == want && s.AvailableReplicas == want
}

func (b *bench) plainObjects(name string) (*appsv1.Deployment, *corev1.Service) {
	labels := map[string]string{"app": name}
	object := metav1.ObjectMeta{Name: name, Namespace: b.namespace, Labels: labels}
	probe := func(path string, period int32) *corev1.Probe {
		return &corev1.Probe{
			ProbeHandler:  corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path, Port: intstr.FromString("metrics")}},
			PeriodSeconds: period, TimeoutSeconds: 5, FailureThreshold: 3,
		}
	}
	deployment := &appsv1.Deployment{ObjectMeta: object, Spec: appsv1.DeploymentSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Strategy: appsv1.DeploymentStrategy{RollingUpdate: &appsv1.RollingUpdateDeployment{MaxUnavailable: new(intstr.FromInt32(0))}},
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{
				Name:  "function",
				Image: b.plainImage,
				Ports: []corev1.ContainerPort{
					{Name: "http", ContainerPort: v1beta1.DefaultServerPort},
					{Name: "metrics", ContainerPort: v1beta1.AdminPort},
				},
				ReadinessProbe: probe("/readyz", 1),
				LivenessProbe:  probe("/healthz", 10),
			}}},
		},
	}}
	service := &corev1.Service{ObjectMeta: object, Spec: corev1.ServiceSpec{
		Selector: labels,
		Ports:    []corev1.ServicePort{{Name: "http", Port: v1beta1.DefaultServerPort, TargetPort: intstr.FromString("http")}},
	}}
	return deployment, service
}
