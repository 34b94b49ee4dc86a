// Package cron creates a CronJob for each CronTrigger and reports the outcome of its calls from the
// Jobs and pods.
package cron

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	batchv1ac "k8s.io/client-go/applyconfigurations/batch/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
	"goless.io/trigger/api/v1alpha1"
	"goless.io/trigger/internal/apply"
	"goless.io/trigger/internal/functionref"
	"goless.io/trigger/internal/trigger"
)

// Kind implements trigger.Kind for CronTriggers.
type Kind struct {
	// Client reads from the cache. Live reads from the API server: Events are not in the cache.
	Client client.Client
	Live   client.Reader

	// Image is the image of cmd/deliver.
	Image string
}

// Seen is the observed state of a CronTrigger.
type Seen struct {
	Time     time.Time
	Function v1beta1.Function
	CronJob  *batchv1.CronJob // with the name of the trigger, regardless of its owner
	Jobs     []batchv1.Job    // of the CronJob
	Pods     []corev1.Pod     // of the Jobs

	// Refused contains the errors of the API server for pods that it rejected, by the UID of the
	// Job.
	Refused map[types.UID]string
}

// New returns an empty CronTrigger.
func (Kind) New() *v1alpha1.CronTrigger { return &v1alpha1.CronTrigger{} }

// Observe reads the Function, the CronJob, its Jobs and their pods.
func (k Kind) Observe(ctx context.Context, t *v1alpha1.CronTrigger) (Seen, error) {
	seen := Seen{Time: time.Now(), CronJob: &batchv1.CronJob{}}
	var jobs batchv1.JobList
	var pods corev1.PodList
	labelled := client.MatchingLabels(apply.Labels(t))
	err := errors.Join(
		client.IgnoreNotFound(k.Client.Get(ctx, client.ObjectKey{Namespace: t.Namespace, Name: t.Spec.FunctionRef.Name}, &seen.Function)),
		client.IgnoreNotFound(k.Client.Get(ctx, client.ObjectKeyFromObject(t), seen.CronJob)),
		k.Client.List(ctx, &jobs, client.InNamespace(t.Namespace), labelled),
		k.Client.List(ctx, &pods, client.InNamespace(t.Namespace), labelled),
	)
	if err != nil {
		return Seen{}, fmt.Errorf("reading the objects of CronTrigger %q: %w", t.Name, err)
	}
	if !metav1.IsControlledBy(seen.CronJob, t) {
		return seen, nil
	}
	// Select them by owner reference: anyone can set a label.
	ours := map[types.UID]bool{}
	for _, job := range jobs.Items {
		if metav1.IsControlledBy(&job, seen.CronJob) {
			seen.Jobs, ours[job.UID] = append(seen.Jobs, job), true
		}
	}
	for _, pod := range pods.Items {
		if owner := metav1.GetControllerOf(&pod); owner != nil && ours[owner.UID] {
			seen.Pods = append(seen.Pods, pod)
		}
	}
	if seen.Refused, err = k.refusals(ctx, t, seen); err != nil {
		return Seen{}, err
	}
	return seen, nil
}

// Plan returns the desired CronJob and the Jobs to delete: those whose call has ended while another
// container keeps the pod running. If the spec is invalid, the CronJob is not changed.
func (k Kind) Plan(t *v1alpha1.CronTrigger, seen Seen) trigger.Plan {
	if _, err := parse(t); err != nil {
		return trigger.Plan{Problem: &functionref.Problem{Reason: v1alpha1.ReasonInvalidSpec, Message: err.Error(), Stalled: true}}
	}
	to := functionref.Of(&seen.Function, t.Spec.FunctionRef.Name)
	p := trigger.Plan{
		Problem: cmp.Or(refused(seen), to.Problem),
		Changes: []apply.Change{apply.To(Desired(t, to, k.Image), seen.CronJob, batchv1ac.ExtractCronJob)},
	}
	for i := range seen.Jobs {
		if job := &seen.Jobs[i]; lingers(job, seen) && reported(t, job) {
			p.Changes = append(p.Changes, apply.GoneFrom(seen.CronJob, job))
		}
	}
	return p
}
