package consumer

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"goless.io/trigger/api/v1alpha1"
	"goless.io/trigger/internal/stream"
)

// maxStatus limits the bytes read of the status of a pod: anyone who may create pods in a namespace
// can give one the labels of a trigger.
const maxStatus = 16 << 10

// podsOf returns the pods that a Deployment owns. The labels are not sufficient: anyone who may
// create pods can set them.
func podsOf(d *appsv1.Deployment, pods []corev1.Pod) []corev1.Pod {
	return slices.DeleteFunc(pods, func(pod corev1.Pod) bool {
		owner := metav1.GetControllerOf(&pod)
		return owner == nil || owner.Kind != "ReplicaSet" || owner.Name != d.Name+"-"+pod.Labels[appsv1.DefaultDeploymentUniqueLabelKey]
	})
}

// forbidden is the prefix of the error for a pod that the API server rejects. The name differs each
// time.
var forbidden = regexp.MustCompile(`^pods "[^"]*" is forbidden: `)

// podsNotCreated returns the reason why a Deployment has no pod, such as a quota or an admission
// policy, or "".
func podsNotCreated(d *appsv1.Deployment) string {
	for _, c := range d.Status.Conditions {
		switch {
		case c.Type == appsv1.DeploymentReplicaFailure && c.Status == corev1.ConditionTrue:
			return "the consumer pod cannot be created: " + forbidden.ReplaceAllString(c.Message, "")
		case c.Type == appsv1.DeploymentProgressing && c.Status == corev1.ConditionFalse && c.Reason == "ReplicaSetCreateError":
			return "the ReplicaSet cannot be created: " + c.Message
		}
	}
	return ""
}

// unscheduled returns the reason why a pod is not scheduled. It returns "" if the pod is scheduled,
// or if the scheduler has not processed it.
func unscheduled(pod *corev1.Pod) string {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return c.Message
		}
	}
	return ""
}

// Answers are what the pods of a trigger report, or what the kubelet and the scheduler report about
// pods that do not respond.
type Answers struct {
	// Problems are the problems that prevent the delivery of events, one for each reason.
	Problems []stream.Problem

	// Last is the outcome of the last delivery, or nil if no pod reports one.
	Last *stream.Last

	// Partitions is the number of partitions of the topic, or 0 if no pod reports it.
	Partitions int32

	// Unreachable is the error of a failed query, or "". For pods that are not ready, only timeouts
	// are recorded.
	Unreachable string
}

// maxAsked is the maximum number of pods of a trigger that are queried. Usually there is one, and
// two during a rollout.
const maxAsked = 3

// ask queries the pods concurrently.
func (k Kind[T]) ask(ctx context.Context, pods []corev1.Pod) (all Answers) {
	each := make([]Answers, min(len(pods), maxAsked))
	var asking sync.WaitGroup
	for i := range each {
		asking.Go(func() { k.askPod(ctx, &pods[i], &each[i]) })
	}
	asking.Wait()
	for _, a := range each {
		all.add(stream.Status{Problems: a.Problems, Last: a.Last, Partitions: a.Partitions})
		all.Unreachable = cmp.Or(all.Unreachable, a.Unreachable)
	}
	return all
}

// askPod adds the status of one pod. If the pod does not respond, it adds what the kubelet or the
// scheduler reports.
func (k Kind[T]) askPod(ctx context.Context, pod *corev1.Pod, a *Answers) {
	if pod.DeletionTimestamp != nil {
		return
	}
	if why := unscheduled(pod); why != "" {
		a.add(stream.Status{Problems: []stream.Problem{{Reason: v1alpha1.ReasonConsumerNotReady, Message: "the consumer pod cannot be scheduled: " + why}}})
		return
	}
	i := slices.IndexFunc(pod.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool { return c.Name == containerName })
	if i < 0 {
		return
	}
	container := pod.Status.ContainerStatuses[i]
	message := "is not ready"
	switch state := container.State; {
	case state.Running != nil:
		status, err := k.Ask(ctx, pod)
		if err == nil {
			a.add(status)
			return
		}
		if container.Ready || os.IsTimeout(err) {
			a.Unreachable = fmt.Sprintf("pod %s does not respond to goless-triggers on port %d: %s", pod.Name, adminPort, err)
		}
		if container.Ready {
			return
		}
		message = "does not report its status: " + err.Error()
	case state.Waiting != nil && state.Waiting.Message != "":
		message = fmt.Sprintf("waits: %s: %s", state.Waiting.Reason, state.Waiting.Message)
	case state.Waiting != nil:
		message = "waits: " + state.Waiting.Reason
	}
	a.add(stream.Status{Problems: []stream.Problem{{Reason: v1alpha1.ReasonConsumerNotReady, Message: fmt.Sprintf("pod %s %s", pod.Name, message)}}})
}

// add adds the status of a pod.
func (a *Answers) add(s stream.Status) {
	a.Partitions = max(a.Partitions, s.Partitions)
	if s.Last != nil && (a.Last == nil || s.Last.Time.After(a.Last.Time)) {
		a.Last = s.Last
	}
	for _, p := range s.Problems {
		if !slices.ContainsFunc(a.Problems, func(known stream.Problem) bool { return known.Reason == p.Reason }) {
			a.Problems = append(a.Problems, p)
		}
	}
}

var askClient = &http.Client{Timeout: 3 * time.Second}

// Ask queries a pod for its status.
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
		return stream.Status{}, fmt.Errorf("reading /status: unexpected status %s", answer.Status)
	}
	var status stream.Status
	if err := json.NewDecoder(io.LimitReader(answer.Body, maxStatus)).Decode(&status); err != nil {
		return stream.Status{}, fmt.Errorf("reading /status: %w", err)
	}
	return status, nil
}
