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
	"goless.io/trigger/internal/target"
)

const (
	// podSoon is how long after a Job its pod is there, unless the API server refuses it.
	podSoon = 10 * time.Second

	// relook is how often a Job without a pod is looked at again.
	relook = 30 * time.Second

	// failedCreate is the reason of the Events with which the Job controller reports that a pod was
	// refused. A Job has no condition for that.
	failedCreate = "FailedCreate"

	// creating is before the API server's words in such an Event.
	creating = "Error creating: "
)

// refusals returns what the API server said of the pods of Jobs that have none for longer than
// usual.
func (k Kind) refusals(ctx context.Context, t *v1alpha1.CronTrigger, seen Seen) (map[types.UID]string, error) {
	said := map[types.UID]string{}
	for i := range seen.Jobs {
		job := &seen.Jobs[i]
		if !podless(job, seen) || reported(t, job) || seen.Time.Before(job.CreationTimestamp.Add(podSoon)) {
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

// podless reports whether a Job has no pod, and needs one.
func podless(job *batchv1.Job, seen Seen) bool {
	return job.DeletionTimestamp == nil && job.Status.Succeeded == 0 && job.Status.CompletionTime == nil &&
		!slices.ContainsFunc(seen.Pods, func(pod corev1.Pod) bool { return metav1.IsControlledBy(&pod, job) })
}

// refused is the problem that the API server refuses the pods of Jobs that have not ended; nil when
// there is none.
func refused(seen Seen) *target.Problem {
	for i := range seen.Jobs {
		if said := seen.Refused[seen.Jobs[i].UID]; said != "" && outcomeByJob(&seen.Jobs[i], nil) == nil {
			return &target.Problem{Reason: v1alpha1.ReasonApplyFailed, Message: fmt.Sprintf("the pod of Job %q is refused: %s", seen.Jobs[i].Name, said)}
		}
	}
	return nil
}
