package cron

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	batchv1ac "k8s.io/client-go/applyconfigurations/batch/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"goless.io/trigger/api/v1alpha1"
	"goless.io/trigger/internal/apply"
	"goless.io/trigger/internal/functionref"
)

const (
	// tries is the time after which no further attempt of a call begins.
	tries = 10 * time.Minute

	// longest is the timeout of an attempt if the Function has no timeout.
	longest = time.Hour

	// lateness is the maximum delay between the scheduled time and the start of a call. After it,
	// the call is missed.
	lateness = 5 * time.Minute

	container = "deliver"
)

// Desired returns the CronJob of a trigger. It is suspended while the Function cannot be called.
//
// Calls may overlap, so that the retries of one call do not make the trigger miss the next one. The
// pod failure policy replaces a pod that was evicted or whose node was lost, but not a pod that
// reports that the function has not accepted the event.
func Desired(t *v1alpha1.CronTrigger, to functionref.Target, image string) *batchv1ac.CronJobApplyConfiguration {
	labels := apply.Labels(t)
	job := batchv1ac.JobSpec().
		WithBackoffLimit(3).
		WithActiveDeadlineSeconds(int64((lateness + tries + timeoutOf(to)).Seconds())).
		WithPodFailurePolicy(batchv1ac.PodFailurePolicy().WithRules(
			batchv1ac.PodFailurePolicyRule().WithAction(batchv1.PodFailurePolicyActionIgnore).WithOnPodConditions(
				batchv1ac.PodFailurePolicyOnPodConditionsPattern().WithType(corev1.DisruptionTarget).WithStatus(corev1.ConditionTrue)),
			batchv1ac.PodFailurePolicyRule().WithAction(batchv1.PodFailurePolicyActionFailJob).WithOnExitCodes(
				batchv1ac.PodFailurePolicyOnExitCodesRequirement().WithContainerName(container).
					WithOperator(batchv1.PodFailurePolicyOnExitCodesOpIn).WithValues(1, 2)),
		)).
		WithTemplate(corev1ac.PodTemplateSpec().WithLabels(labels).WithSpec(podOf(t, to, image)))
	return batchv1ac.CronJob(t.Name, t.Namespace).
		WithLabels(labels).
		WithOwnerReferences(apply.Owner(t)).
		WithSpec(batchv1ac.CronJobSpec().
			WithSchedule(t.Spec.Schedule).
			WithTimeZone(t.Spec.TimeZone).
			WithSuspend(to.URL == "").
			WithConcurrencyPolicy(batchv1.AllowConcurrent).
			WithStartingDeadlineSeconds(int64(lateness.Seconds())).
			WithSuccessfulJobsHistoryLimit(1).
			WithFailedJobsHistoryLimit(1).
			WithJobTemplate(batchv1ac.JobTemplateSpec().WithLabels(labels).WithSpec(job)))
}

// timeoutOf returns the timeout of an attempt.
func timeoutOf(to functionref.Target) time.Duration { return cmp.Or(to.Timeout, longest) }

// podOf returns the spec of the pod that makes one call.
func podOf(t *v1alpha1.CronTrigger, to functionref.Target, image string) *corev1ac.PodSpecApplyConfiguration {
	return apply.RestrictedPod(corev1ac.Container().
		WithName(container).
		WithImage(image).
		WithArgs(arguments(t, to)...).
		WithEnv(corev1ac.EnvVar().WithName("JOB_NAME").WithValueFrom(corev1ac.EnvVarSource().WithFieldRef(
			corev1ac.ObjectFieldSelector().WithAPIVersion("v1").WithFieldPath("metadata.labels['" + batchv1.JobNameLabel + "']")))).
		WithResources(corev1ac.ResourceRequirements().
			WithRequests(apply.Resources("10m", "16Mi", "1Mi")).
			WithLimits(apply.Resources("", "64Mi", "16Mi")))).
		WithRestartPolicy(corev1.RestartPolicyNever).
		WithTerminationGracePeriodSeconds(5)
}

// arguments returns the arguments of cmd/deliver. '$' is doubled, because the kubelet expands
// $(NAME).
func arguments(t *v1alpha1.CronTrigger, to functionref.Target) []string {
	args := []string{
		"--url=" + to.URL + t.Spec.Path,
		"--method=" + t.Spec.Method,
		fmt.Sprintf("--timeout=%s", timeoutOf(to)),
		fmt.Sprintf("--source=/apis/%s/namespaces/%s/crontriggers/%s", v1alpha1.GroupVersion, t.Namespace, t.Name),
		"--body=" + t.Spec.Body,
	}
	for _, name := range slices.Sorted(maps.Keys(t.Spec.Headers)) {
		args = append(args, fmt.Sprintf("--header=%s: %s", name, t.Spec.Headers[name]))
	}
	for i, arg := range args {
		args[i] = strings.ReplaceAll(arg, "$", "$$")
	}
	return append([]string{
		"--once", "--job=$(JOB_NAME)", fmt.Sprintf("--deadline=%s", tries), "--termination-log=" + corev1.TerminationMessagePathDefault,
	}, args...)
}
