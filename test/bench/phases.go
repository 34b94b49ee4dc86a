package main

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// phases are the steps of a Function's first pod, in their order, each with how
// the API tells that it is over. The API learns of the end of a container from
// the kubelet, which looks once a second: that wait is part of the phase.
var phases = []struct {
	name string
	over func(*corev1.Pod) bool
}{
	{"1-pod-created", func(*corev1.Pod) bool { return true }},
	{"2-build-started", func(pod *corev1.Pod) bool {
		s := pod.Status.InitContainerStatuses
		return len(s) > 0 && (s[0].State.Running != nil || s[0].State.Terminated != nil)
	}},
	{"3-build-ended", func(pod *corev1.Pod) bool {
		s := pod.Status.InitContainerStatuses
		return len(s) > 0 && s[0].State.Terminated != nil
	}},
	{"4-function-started", func(pod *corev1.Pod) bool {
		s := pod.Status.ContainerStatuses
		return len(s) > 0 && s[0].State.Running != nil
	}},
	{"5-pod-ready", func(pod *corev1.Pod) bool {
		s := pod.Status.ContainerStatuses
		return len(s) > 0 && s[0].Ready
	}},
}

// watchPhases records how long each phase of the pod of a Function takes, the
// first one since started. The channel is closed after the last one.
func (b *bench) watchPhases(ctx context.Context, function string, started time.Time) (<-chan struct{}, error) {
	events, err := b.client.Watch(ctx, &corev1.PodList{},
		client.InNamespace(b.namespace), client.MatchingLabels{"goless.io/function": function})
	if err != nil {
		return nil, err
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer events.Stop()
		next := 0
		for event := range events.ResultChan() {
			pod, ok := event.Object.(*corev1.Pod)
			if !ok {
				return
			}
			now := time.Now()
			for next < len(phases) && phases[next].over(pod) {
				b.record("phase."+phases[next].name, now.Sub(started).Seconds())
				started = now
				next++
			}
			if next == len(phases) {
				return
			}
		}
	}()
	return done, nil
}
