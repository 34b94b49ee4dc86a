package cron

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/trigger/api/v1alpha1"
	"goless.io/trigger/internal/functionref"
)

const (
	// podSoon is the time in which a new Job gets its pod, unless the API server rejects the pod.
	podSoon = 10 * time.Second

	// recheckInterval is the interval between checks of a Job without a pod.
	recheckInterval = 30 * time.Second

	// failedCreate is the reason of the Events in which the Job controller reports a rejected pod.
	// A Job has no condition for that.
	failedCreate = "FailedCreate"

	// creating precedes the error of the API server in such an Event.
	creating = "Error creating: "
)

// refusals returns the errors of the API server for Jobs that have had no pod for longer than
// podSoon.
func (k Kind) refusals(ctx context.Context, t *v1alpha1.CronTrigger, seen Seen) (map[types.UID]string, error) {
	said := map[types.UID]string{}
	for i := range seen.Jobs {
		job := &seen.Jobs[i]
		if !lacksPod(job, seen) || reported(t, job) || seen.Time.Before(job.CreationTimestamp.Add(podSoon)) {
			continue
		}
		var events corev1.EventList
		about := client.MatchingFields{"involvedObject.kind": "Job", "involvedObject.uid": string(job.UID), "reason": failedCreate}
		if err := k.Live.List(ctx, &events, client.InNamespace(job.Namespace), about, client.Limit(50)); err != nil {
			return nil, fmt.Errorf("reading the Events of Job %q: %w", job.Name, err)
		}
		if len(events.Items) > 0 {
			last := slices.MaxFunc(events.Items, func(a, b corev1.Event) int { return a.LastTimestamp.Compare(b.LastTimestamp.Time) })
			_, words, _ := strings.Cut(last.Message, creating)
			said[job.UID] = cmp.Or(words, last.Message)
		}
	}
	return said, nil
}

// lacksPod reports whether a Job needs a pod but has none.
func lacksPod(job *batchv1.Job, seen Seen) bool {
	return job.DeletionTimestamp == nil && job.Status.Succeeded == 0 && job.Status.CompletionTime == nil &&
		!slices.ContainsFunc(seen.Pods, func(pod corev1.Pod) bool { return metav1.IsControlledBy(&pod, job) })
}

// refused returns the problem that the API server rejects the pods of unfinished Jobs, or nil.
func refused(seen Seen) *functionref.Problem {
	for i := range seen.Jobs {
		if said := seen.Refused[seen.Jobs[i].UID]; said != "" && outcomeByJob(&seen.Jobs[i], nil) == nil {
			return &functionref.Problem{Reason: v1alpha1.ReasonApplyFailed, Message: fmt.Sprintf("the pod of Job %q was rejected: %s", seen.Jobs[i].Name, said)}
		}
	}
	return nil
}
