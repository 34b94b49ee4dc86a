package controllers_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/trigger/api/v1alpha1"
	"goless.io/trigger/internal/stream"
)

// consumingPod serves the status of a consumer pod.
type consumingPod struct {
	ip string

	mu     sync.Mutex
	status stream.Status
}

// addresses counts the pods of all tests: each has its own address.
var addresses atomic.Int32

func newConsumingPod(t *testing.T) *consumingPod {
	t.Helper()
	p := &consumingPod{}
	var listener net.Listener
	for err := error(syscall.EADDRINUSE); errors.Is(err, syscall.EADDRINUSE); { // used by another run of the tests
		p.ip = fmt.Sprintf("127.0.77.%d", addresses.Add(1))
		if listener, err = net.Listen("tcp", p.ip+":9090"); err != nil && !errors.Is(err, syscall.EADDRINUSE) {
			t.Fatal(err)
		}
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if err := json.NewEncoder(w).Encode(p.status); err != nil {
			t.Error(err)
		}
	})}
	go server.Serve(listener) //nolint:errcheck // it ends with an error
	t.Cleanup(func() { _ = server.Close() })
	return p
}

// says sets the status that the pod serves.
func (p *consumingPod) says(status stream.Status) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.status = status
}

// running acts as the Deployment controller and the kubelet: the Deployment of the trigger has a
// pod, which is ready or not.
func (p *consumingPod) running(t *testing.T, trigger v1alpha1.Trigger, ready bool) {
	t.Helper()
	deployment := deploymentOf(trigger)
	read(t, deployment)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: deployment.Namespace, Name: deployment.Name + "-1"}}
	if err := cluster.Get(t.Context(), client.ObjectKeyFromObject(pod), pod); err != nil {
		pod.Labels, pod.Spec = maps.Clone(deployment.Spec.Template.Labels), deployment.Spec.Template.Spec
		pod.Labels[appsv1.DefaultDeploymentUniqueLabelKey] = "1"
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: deployment.Name + "-1", UID: "1", Controller: new(true)}}
		create(t, pod)
	}
	report(t, pod, func(pod *corev1.Pod) {
		restarts := int32(0)
		if len(pod.Status.ContainerStatuses) > 0 {
			restarts = pod.Status.ContainerStatuses[0].RestartCount + 1 // so that the trigger is reconciled
		}
		pod.Status.PodIP = p.ip
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
			Name: "consume", Ready: ready, RestartCount: restarts, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}},
		}}
	})
	report(t, deployment, func(d *appsv1.Deployment) {
		d.Status.ObservedGeneration, d.Status.Replicas, d.Status.UpdatedReplicas, d.Status.ReadyReplicas = d.Generation, 1, 1, 0
		if ready {
			d.Status.ReadyReplicas = 1
		}
	})
}
