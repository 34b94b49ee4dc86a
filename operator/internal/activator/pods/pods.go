// Package pods finds the pods of functions in the cache, and asks them how busy they are.
package pods

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
	"goless.io/operator/internal/activator/target"
)

// byFunction is the index of pods by the label of their Function.
const byFunction = "metadata.labels.function"

// A Pod is a pod of a function that has not ended.
type Pod struct {
	UID types.UID
	// Address is where it takes requests, and Admin where it tells how busy it is. They are
	// empty as long as the pod has no IP address.
	Address, Admin string
	// Ending tells that the pod is being deleted. It is not Ready then, though it may still serve.
	Ending bool
	Ready  bool
	Since  time.Time // since when the pod is ready, to the second and by the clock of its node
	// Broken says why a container of the pod does not start until somebody mends something. It is
	// empty if none is known to be so.
	Broken string
}

// A Lister reads pods from a cache that has the index of [Index].
type Lister struct{ Reader client.Reader }

// Index adds the index that a Lister needs to the cache.
func Index(ctx context.Context, indexer client.FieldIndexer) error {
	return indexer.IndexField(ctx, &corev1.Pod{}, byFunction, func(obj client.Object) []string {
		return []string{obj.GetLabels()[v1beta1.FunctionLabel]}
	})
}

// Of returns the pods of a function that have not ended. A pod without a ReplicaSet is not one of
// them: it has the label because somebody has copied it, say.
func (l Lister) Of(ctx context.Context, function types.NamespacedName) ([]Pod, error) {
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
			pods = append(pods, podOf(pod))
		}
	}
	return pods, nil
}

// Ready returns the address of a pod that is ready, if there is one. It chooses among several at
// random, so that requests that have waited together spread over them, and so that another try may
// avoid a pod that does not answer, such as one on a node that has just died.
func Ready(pods []Pod) (address string, ok bool) {
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

// broken explains the reasons of the kubelet for which a container waits until somebody mends
// something.
var broken = map[string]string{
	"CrashLoopBackOff":           "its container ends again and again",
	"ImagePullBackOff":           "an image cannot be pulled",
	"ErrImageNeverPull":          "an image is not on the node, and must not be pulled",
	"InvalidImageName":           "the name of an image is invalid",
	"CreateContainerConfigError": "a Secret, a ConfigMap or a key of them is missing",
}

// podOf is what this package tells of a pod.
func podOf(p *corev1.Pod) Pod {
	pod := Pod{UID: p.UID, Ending: p.DeletionTimestamp != nil}
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
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue && !pod.Ending {
			pod.Ready, pod.Since = true, c.LastTransitionTime.Time
		}
	}
	return pod
}

// portOf returns the port on which a pod takes requests, and 0 if it has none.
func portOf(p *corev1.Pod) int32 {
	for _, c := range p.Spec.Containers {
		for _, port := range c.Ports {
			if port.Name == target.Port {
				return port.ContainerPort
			}
		}
	}
	return 0
}

// Trim drops what is large in a pod and not read by a Lister, before the pod comes into the cache. It
// is a transform of that.
func Trim(obj any) (any, error) {
	p, ok := obj.(*corev1.Pod)
	if !ok {
		return obj, nil
	}
	port := corev1.ContainerPort{Name: target.Port, ContainerPort: portOf(p)}
	p.Annotations, p.ManagedFields = nil, nil
	p.Spec = corev1.PodSpec{Containers: []corev1.Container{{Ports: []corev1.ContainerPort{port}}}}
	return p, nil
}
