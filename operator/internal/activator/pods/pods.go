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
	// Address is where it takes requests, and Admin where it tells how busy it is. They are
	// empty as long as the pod has no IP address.
	Address, Admin string
	// Ending tells that the pod is being deleted. It is not Ready then, though it may serve.
	Ending bool
	Ready  bool
	Since  time.Time // since when it is ready, to the second
	// Broken says why a container of it does not start, if that does not pass by itself.
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

// Of returns the pods of a function, which are those of a ReplicaSet: anybody who makes a pod
// can give it the label.
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
		if ended := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed; !ended && owner != nil && owner.Kind == "ReplicaSet" {
			pods = append(pods, podOf(pod))
		}
	}
	return pods, nil
}

// Ready returns the address of a pod that is ready, if there is one. Among several it is any
// of them: requests that have waited together spread, and another try avoids a pod that does
// not answer, such as one of a node that has just died.
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

// broken are the reasons for which, by the kubelet, a container waits that does not start
// until somebody mends something.
var broken = map[string]string{
	"CrashLoopBackOff":           "its container ends again and again",
	"ImagePullBackOff":           "an image cannot be pulled",
	"ErrImageNeverPull":          "an image is not on the node, and must not be pulled",
	"InvalidImageName":           "the name of an image is invalid",
	"CreateContainerConfigError": "a Secret, a ConfigMap or a key of them is missing",
}

func podOf(p *corev1.Pod) Pod {
	pod := Pod{Ending: p.DeletionTimestamp != nil}
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

// Small drops the parts of a pod that are large and that a Lister does not read, before it
// comes into the cache.
func Small(obj any) (any, error) {
	p, ok := obj.(*corev1.Pod)
	if !ok {
		return obj, nil
	}
	port := corev1.ContainerPort{Name: target.Port, ContainerPort: portOf(p)}
	p.Annotations, p.ManagedFields = nil, nil
	p.Spec = corev1.PodSpec{Containers: []corev1.Container{{Ports: []corev1.ContainerPort{port}}}}
	return p, nil
}
