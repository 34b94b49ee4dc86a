package backend

import (
	"context"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
)

// byFunction is the cache index of pods by Function name.
const byFunction = "metadata.labels.function"

// A Pod is a pod of a function that is not in the phase Succeeded or Failed.
type Pod struct {
	UID types.UID
	// Address is the host and port for requests, Admin that of the admin port. Both are empty until
	// the pod has an IP address.
	Address, Admin string
	// Terminating is true if the pod is being deleted. Then Ready is false, although the pod may
	// still serve.
	Terminating bool
	Ready       bool
	// Template is the hash of the pod template.
	Template string
	// ReadySince is the LastTransitionTime of the condition Ready: a time on the clock of the node,
	// with a resolution of one second.
	ReadySince time.Time
	// Broken is the reason why a container of the pod cannot start, such as a missing Secret. It is
	// empty if there is no such reason.
	Broken string
}

// A Lister lists the pods of functions. The Reader is a cache with the index that AddIndex adds.
type Lister struct{ Reader client.Reader }

// AddIndex adds the cache index that a Lister needs.
func AddIndex(ctx context.Context, indexer client.FieldIndexer) error {
	return indexer.IndexField(ctx, &corev1.Pod{}, byFunction, func(obj client.Object) []string {
		return []string{obj.GetLabels()[v1beta1.FunctionLabel]}
	})
}

// List returns the pods of a function that are not in the phase Succeeded or Failed. Pods without a
// ReplicaSet are ignored: they do not belong to the function even if they have its label.
func (l Lister) List(ctx context.Context, function types.NamespacedName) ([]Pod, error) {
	var list corev1.PodList
	err := l.Reader.List(ctx, &list, client.InNamespace(function.Namespace), client.MatchingFields{byFunction: function.Name}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, err
	}
	var pods []Pod
	for i := range list.Items {
		pod := &list.Items[i]
		owner := metav1.GetControllerOfNoCopy(pod)
		ended := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
		if !ended && owner != nil && owner.Kind == "ReplicaSet" {
			pods = append(pods, newPod(pod))
		}
	}
	return pods, nil
}

// PickReady returns the address of a randomly chosen ready pod, and false if none is ready. The
// random choice spreads requests that have waited together, and lets a retry reach a different pod
// if one does not respond, such as a pod on a failed node.
func PickReady(pods []Pod) (address string, ok bool) {
	var addresses []string
	for _, p := range pods {
		if p.Ready && p.Address != "" {
			addresses = append(addresses, p.Address)
		}
	}
	if len(addresses) == 0 {
		return "", false
	}
	return addresses[rand.N(len(addresses))], true
}

// broken describes the reasons of waiting containers that are unlikely to start until a user fixes
// the cause.
var broken = map[string]string{
	"CrashLoopBackOff":           "its container keeps restarting",
	"ImagePullBackOff":           "an image cannot be pulled",
	"ErrImageNeverPull":          "an image is not present on the node, and its pull policy is Never",
	"InvalidImageName":           "an image name is invalid",
	"CreateContainerConfigError": "a Secret, a ConfigMap or one of their keys is missing",
}

// newPod converts a pod.
func newPod(p *corev1.Pod) Pod {
	pod := Pod{UID: p.UID, Terminating: p.DeletionTimestamp != nil, Template: p.Labels[v1beta1.TemplateLabel]}
	for _, c := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		if w := c.State.Waiting; w != nil && pod.Broken == "" && broken[w.Reason] != "" {
			pod.Broken = broken[w.Reason] + " (" + w.Reason + ")"
		}
	}
	if port := portOf(p); port != 0 && p.Status.PodIP != "" {
		pod.Address = net.JoinHostPort(p.Status.PodIP, strconv.Itoa(int(port)))
		pod.Admin = net.JoinHostPort(p.Status.PodIP, strconv.Itoa(v1beta1.AdminPort))
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue && !pod.Terminating {
			pod.Ready, pod.ReadySince = true, c.LastTransitionTime.Time
		}
	}
	return pod
}

// portOf returns the port on which a pod receives requests, or 0 if it has none.
func portOf(p *corev1.Pod) int32 {
	for _, c := range p.Spec.Containers {
		for _, port := range c.Ports {
			if port.Name == PortName {
				return port.ContainerPort
			}
		}
	}
	return 0
}

// TrimPod is a cache transform that removes the parts of a pod that a Lister does not read.
func TrimPod(obj any) (any, error) {
	p, ok := obj.(*corev1.Pod)
	if !ok {
		return obj, nil
	}
	port := corev1.ContainerPort{Name: PortName, ContainerPort: portOf(p)}
	p.Annotations, p.ManagedFields = nil, nil
	p.Spec = corev1.PodSpec{Containers: []corev1.Container{{Ports: []corev1.ContainerPort{port}}}}
	return p, nil
}
