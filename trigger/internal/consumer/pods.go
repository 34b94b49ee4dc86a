package consumer

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"goless.io/trigger/api/v1alpha1"
	"goless.io/trigger/internal/stream"
)

// maxStatus bounds what is read of the status of a pod: whoever may create pods in a namespace
// can give one the labels of a trigger.
const maxStatus = 16 << 10

// podsOf returns the pods of a Deployment. A label alone does not make a pod one of them: anyone
// who may create pods can set it.
func podsOf(d *appsv1.Deployment, pods []corev1.Pod) []corev1.Pod {
	return slices.DeleteFunc(pods, func(pod corev1.Pod) bool {
		owner := metav1.GetControllerOf(&pod)
		return owner == nil || owner.Kind != "ReplicaSet" || owner.Name != d.Name+"-"+pod.Labels[appsv1.DefaultDeploymentUniqueLabelKey]
	})
}

// forbidden is how the API server begins when it rejects a pod. The name is another one each time.
var forbidden = regexp.MustCompile(`^pods "[^"]*" is forbidden: `)

// podsNotCreated says why a Deployment has no pod, such as a quota or an admission policy; "" when nothing
// is known.
func podsNotCreated(d *appsv1.Deployment) string {
	for _, c := range d.Status.Conditions {
		switch {
		case c.Type == appsv1.DeploymentReplicaFailure && c.Status == corev1.ConditionTrue:
			return "the pod that consumes cannot be created: " + forbidden.ReplaceAllString(c.Message, "")
		case c.Type == appsv1.DeploymentProgressing && c.Status == corev1.ConditionFalse && c.Reason == "ReplicaSetCreateError":
			return "the ReplicaSet cannot be created: " + c.Message
		}
	}
	return ""
}

// unscheduled says why a pod is on no node; "" when it is on one, or the scheduler has not seen it.
func unscheduled(pod *corev1.Pod) string {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return c.Message
		}
	}
	return ""
}

// problems asks the pods that are not ready for what is wrong, and returns one problem of each
// reason.
func (k Kind[T]) problems(ctx context.Context, pods []corev1.Pod) []stream.Problem {
	var all []stream.Problem
	for i := range pods {
		for _, p := range k.problemsOf(ctx, &pods[i]) {
			if !slices.ContainsFunc(all, func(told stream.Problem) bool { return told.Reason == p.Reason }) {
				all = append(all, p)
			}
		}
	}
	return all
}

// problemsOf are those of one pod. Where it does not answer, the kubelet may know why.
func (k Kind[T]) problemsOf(ctx context.Context, pod *corev1.Pod) []stream.Problem {
	if pod.DeletionTimestamp != nil {
		return nil
	}
	if why := unscheduled(pod); why != "" {
		return []stream.Problem{{Reason: v1alpha1.ReasonConsumerNotReady, Message: "no node takes the pod that consumes: " + why}}
	}
	if len(pod.Status.ContainerStatuses) == 0 {
		return nil
	}
	container := pod.Status.ContainerStatuses[0]
	if container.Ready {
		return nil
	}
	message := "is not ready"
	switch state := container.State; {
	case state.Running != nil:
		status, err := k.Ask(ctx, pod)
		if err == nil {
			return status.Problems
		}
		message = "does not say what is wrong: " + err.Error()
	case state.Waiting != nil && state.Waiting.Message != "":
		message = fmt.Sprintf("waits: %s: %s", state.Waiting.Reason, state.Waiting.Message)
	case state.Waiting != nil:
		message = "waits: " + state.Waiting.Reason
	}
	return []stream.Problem{{Reason: v1alpha1.ReasonConsumerNotReady, Message: fmt.Sprintf("pod %s %s", pod.Name, message)}}
}

var askClient = &http.Client{Timeout: 3 * time.Second}

// Ask asks a pod for its status.
func Ask(ctx context.Context, pod *corev1.Pod) (stream.Status, error) {
	return ask(ctx, net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(adminPort)))
}

func ask(ctx context.Context, address string) (stream.Status, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/status", nil)
	if err != nil {
		return stream.Status{}, err
	}
	answer, err := askClient.Do(r)
	if err != nil {
		return stream.Status{}, err
	}
	defer answer.Body.Close() //nolint:errcheck // it was only read
	if answer.StatusCode != http.StatusOK {
		return stream.Status{}, fmt.Errorf("asking for /status: the answer was %s", answer.Status)
	}
	var status stream.Status
	if err := json.NewDecoder(io.LimitReader(answer.Body, maxStatus)).Decode(&status); err != nil {
		return stream.Status{}, fmt.Errorf("reading /status: %w", err)
	}
	return status, nil
}
