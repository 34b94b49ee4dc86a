// Package kubelet simulates the nodes of a cluster. It makes the pods of Functions compile and
// become ready, with the status that a real kubelet would write. Deployments, ReplicaSets and
// the garbage collector are real.
//
// It does not compile: a source that contains the word Broken fails.
package kubelet

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

const (
	built  = `{"reason":"Built","message":"built in 1ms","duration":"1ms","toolchain":"go0.0.0"}`
	failed = `{"reason":"CompileFailed","message":"handler.go:1:1: undefined: Broken","diagnostics":[{"file":"handler.go","line":1,"column":1,"message":"undefined: Broken"}]}`
)

// Node makes the pods of Functions ready.
type Node struct {
	set   kubernetes.Interface
	queue workqueue.TypedRateLimitingInterface[cache.ObjectName]
}

// Start runs a Node until the context ends.
func Start(ctx context.Context, config *rest.Config) error {
	set, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	n := &Node{set: set, queue: workqueue.NewTypedRateLimitingQueue(
		workqueue.NewTypedItemExponentialFailureRateLimiter[cache.ObjectName](50*time.Millisecond, 2*time.Second))}
	factory := informers.NewSharedInformerFactoryWithOptions(set, 0, informers.WithTweakListOptions(func(o *metav1.ListOptions) {
		o.LabelSelector = "goless.io/function"
	}))
	add := func(obj any) {
		pod := obj.(*corev1.Pod)
		n.queue.Add(cache.MetaObjectToName(pod))
	}
	_, err = factory.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: add, UpdateFunc: func(_, obj any) { add(obj) },
	})
	if err != nil {
		return err
	}
	factory.Start(ctx.Done())
	context.AfterFunc(ctx, n.queue.ShutDown)
	for range 4 {
		go n.work(ctx)
	}
	return nil
}

func (n *Node) work(ctx context.Context) {
	for {
		pod, shutdown := n.queue.Get()
		if shutdown {
			return
		}
		if err := n.advance(ctx, pod); err != nil {
			n.queue.AddRateLimited(pod)
		} else {
			n.queue.Forget(pod)
		}
		n.queue.Done(pod)
	}
}

// advance sets the next status of a pod: compiling, and then ready or failed.
func (n *Node) advance(ctx context.Context, name cache.ObjectName) error {
	pods := n.set.CoreV1().Pods(name.Namespace)
	pod, err := pods.Get(ctx, name.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if pod.DeletionTimestamp != nil || len(pod.Status.ContainerStatuses) > 0 {
		return nil // nothing ever happens to it again
	}
	if len(pod.Spec.InitContainers) == 0 {
		serve(pod) // it was compiled elsewhere
	} else if len(pod.Status.InitContainerStatuses) == 0 {
		pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{
			Name: "build", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}},
		}}
	} else if err := n.finish(ctx, pod); err != nil {
		return err
	}
	_, err = pods.UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // decided at the next event
	}
	return err
}

// finish writes the result of the build, and that the function serves if it succeeded.
func (n *Node) finish(ctx context.Context, pod *corev1.Pod) error {
	source, err := n.source(ctx, pod)
	if err != nil {
		return err
	}
	end := &corev1.ContainerStateTerminated{Reason: "Completed", Message: built, FinishedAt: metav1.Now()}
	if strings.Contains(source, "Broken") {
		end = &corev1.ContainerStateTerminated{ExitCode: 10, Reason: "Error", Message: failed, FinishedAt: metav1.Now()}
	}
	pod.Status.InitContainerStatuses[0].State = corev1.ContainerState{Terminated: end}
	if end.ExitCode == 0 {
		serve(pod)
	} else {
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "function"}}
	}
	return nil
}

// serve makes a pod ready.
func serve(pod *corev1.Pod) {
	pod.Status.Phase = corev1.PodRunning
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: "function", Ready: true,
		State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}},
	}}
	pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
		Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now(),
	})
}

// source returns the source that the build container of a pod compiles.
func (n *Node) source(ctx context.Context, pod *corev1.Pod) (string, error) {
	for _, volume := range pod.Spec.Volumes {
		if volume.Name != "source" || volume.ConfigMap == nil {
			continue
		}
		configMap, err := n.set.CoreV1().ConfigMaps(pod.Namespace).Get(ctx, volume.ConfigMap.Name, metav1.GetOptions{})
		if err != nil {
			return "", err
		}
		return configMap.Data["handler.go"], nil
	}
	return "", fmt.Errorf("pod %s has no volume with a source", pod.Name)
}
