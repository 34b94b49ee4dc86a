package main

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
)

// plain does with a Deployment and a Service, as people write them, what
// function does with a Function: the same program, the same probes.
func (b *bench) plain(ctx context.Context, i int) error {
	deployment, service := b.plainObjects(fmt.Sprintf("plain-%d", i))
	started := time.Now()
	if err := b.client.Create(ctx, deployment); err != nil {
		return err
	}
	if err := b.client.Create(ctx, service); err != nil {
		return err
	}
	ready, err := await(ctx, b.client, deployment, &appsv1.DeploymentList{}, isComplete)
	if err != nil {
		return err
	}
	b.record("deploy.plain", time.Since(started).Seconds())

	changed := ready.DeepCopy()
	changed.Spec.Template.Annotations = map[string]string{"version": "second"}
	started = time.Now()
	if err := b.client.Patch(ctx, changed, client.MergeFrom(ready)); err != nil {
		return err
	}
	if _, err := await(ctx, b.client, changed, &appsv1.DeploymentList{}, isComplete); err != nil {
		return err
	}
	b.record("update.plain", time.Since(started).Seconds())
	if err := b.client.Delete(ctx, service); err != nil {
		return err
	}
	return b.client.Delete(ctx, changed, client.PropagationPolicy(metav1.DeletePropagationBackground))
}

// isComplete is what a Function means by ready.
func isComplete(d *appsv1.Deployment) bool {
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
