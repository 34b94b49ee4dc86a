package desired

import (
	"cmp"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	batchv1ac "k8s.io/client-go/applyconfigurations/batch/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	networkingv1ac "k8s.io/client-go/applyconfigurations/networking/v1"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/settings"
)

const (
	// TestsLabel contains the name of the Function on the pods that run its tests. They do not have
	// FunctionLabel, by which the Service selects pods.
	TestsLabel = "goless.io/tests"

	// ExitWithoutBinary is the exit code of a launcher that failed to fetch its binary.
	ExitWithoutBinary = 125

	// defaultTestTimeout is the timeout of tests if neither the spec nor the settings have a timeout
	// of the build.
	defaultTestTimeout = time.Minute

	// testStartTimeout is the time that a Job may take in addition to that of its tests, for
	// scheduling and starting pods.
	testStartTimeout = 5 * time.Minute

	// neverReady is a condition that the pods of tests never have, so that they are never ready.
	// Otherwise a Service of somebody else could select such a pod by a label of its FunctionClass,
	// and send it requests.
	neverReady = "goless.io/serves"
)

// maxJobName is the maximum length of the name of a Job, which is also a label of its pods.
const maxJobName = 63

// TestJobName returns the name of the Job that runs the tests of a version of a Function. The name
// changes with testEnv and the class, which may be the reason for a failure, and with the UID of a
// Function that was created again.
func TestJobName(fn *v1beta1.Function, s settings.Settings) string {
	suffix := "-tests-" + Digest([]any{fn.Name, fn.UID, SpecHashWithoutValues(fn, s), fn.Spec.Build.TestEnv, ClassHash(s.Class)})
	return fn.Name[:min(len(fn.Name), maxJobName-len(suffix))] + suffix
}

// TestTimeout returns the time in which the tests of a Function must end, at most one hour: the
// access policy limits the duration of the Job.
func TestTimeout(fn *v1beta1.Function, s settings.Settings) time.Duration {
	return min(cmp.Or(buildTimeout(fn, s), defaultTestTimeout), time.Hour)
}

// TestJob returns the Job that runs the tests of a Function once. binary contains the tests. A pod
// that is disrupted (condition DisruptionTarget) or that cannot fetch the binary is replaced. A pod
// whose tests fail is not. Labels of the Function are not copied to the pod: a Service or a
// PodDisruptionBudget could select it by them.
func TestJob(fn *v1beta1.Function, s settings.Settings, binary *Binary) *batchv1ac.JobApplyConfiguration {
	pod := corev1ac.PodTemplateSpec()
	if s.Class != nil {
		pod.WithLabels(s.Class.Labels).WithAnnotations(s.Class.Annotations)
	}
	pod.WithLabels(map[string]string{TestsLabel: fn.Name}).
		WithAnnotations(podMetadataFrom(fn, s).annotations).
		WithAnnotations(map[string]string{defaultContainer: FunctionContainer}).
		WithSpec(testPod(fn, s, binary))
	spec := batchv1ac.JobSpec().
		WithBackoffLimit(2).
		WithActiveDeadlineSeconds(int64((TestTimeout(fn, s) + testStartTimeout).Seconds())).
		WithPodFailurePolicy(batchv1ac.PodFailurePolicy().WithRules(
			batchv1ac.PodFailurePolicyRule().WithAction(batchv1.PodFailurePolicyActionIgnore).
				WithOnPodConditions(batchv1ac.PodFailurePolicyOnPodConditionsPattern().WithType(corev1.DisruptionTarget).WithStatus(corev1.ConditionTrue)),
			batchv1ac.PodFailurePolicyRule().WithAction(batchv1.PodFailurePolicyActionFailJob).
				WithOnExitCodes(batchv1ac.PodFailurePolicyOnExitCodesRequirement().
					WithContainerName(FunctionContainer).WithOperator(batchv1.PodFailurePolicyOnExitCodesOpNotIn).WithValues(0, ExitWithoutBinary)),
		)).
		WithTemplate(pod)
	return batchv1ac.Job(TestJobName(fn, s), fn.Namespace).
		WithLabels(labels(fn)).
		WithOwnerReferences(owner(fn)).
		WithSpec(spec)
}

// testPod returns the pod that runs the tests in binary.
func testPod(fn *v1beta1.Function, s settings.Settings, binary *Binary) *corev1ac.PodSpecApplyConfiguration {
	security := corev1ac.PodSecurityContext().
		WithRunAsNonRoot(true).
		WithSeccompProfile(corev1ac.SeccompProfile().WithType(corev1.SeccompProfileTypeRuntimeDefault))
	setUser(security, s)
	volumes, mounts := separate(append(fileVolumes(testedFunction(fn)), mounted(emptyDir(volumeTmp, "512Mi"), tmpDir)))
	tests := container(FunctionContainer, s.Images.Function, buildResources(fn, s)).
		WithEnv(testEnv(fn, s)...).
		WithEnv(binary.env()...).
		WithEnvFrom(functionEnvFrom(testedFunction(fn))...).
		WithVolumeMounts(mounts...).
		WithTerminationMessagePolicy(corev1.TerminationMessageFallbackToLogsOnError)
	pod := corev1ac.PodSpec().
		WithRestartPolicy(corev1.RestartPolicyNever).
		WithAutomountServiceAccountToken(false).
		WithEnableServiceLinks(false).
		WithTerminationGracePeriodSeconds(1).
		WithSecurityContext(security).
		WithReadinessGates(corev1ac.PodReadinessGate().WithConditionType(neverReady)).
		WithVolumes(volumes...)
	applyClass(pod, fn, s.Class)
	pod.TopologySpreadConstraints = nil // they count the pods of the function
	tolerateLostNode(pod, s)
	return pod.WithContainers(tests)
}

// testEnv returns the environment of the tests. The ports are empty, so that the launcher does not
// open them.
func testEnv(fn *v1beta1.Function, s settings.Settings) []*envVar {
	all := []*envVar{
		env("SERVER_PORT", ""),
		env("ADMIN_PORT", ""),
		env("FUNCTION_NAME", fn.Name),
		env("FUNCTION_NAMESPACE", fn.Namespace),
		env("FUNCTION_REVISION", LatestRevision(fn)),
		env("FUNCTION_TEST_TIMEOUT", TestTimeout(fn, s).String()),
		env("FUNCTION_TEST_REPORT", terminationLog),
	}
	for _, v := range testedFunction(fn).Spec.Env {
		all = append(all, userEnv(v))
	}
	for _, v := range fn.Spec.Build.TestEnv {
		all = append(all, userEnv(v))
	}
	return all
}

// testedFunction returns a Function with only the variables and files of it that its tests receive: not
// those from Secrets, and no variables that testEnv replaces.
func testedFunction(fn *v1beta1.Function) *v1beta1.Function {
	fn = fn.DeepCopy()
	fn.Spec.Env = slices.DeleteFunc(fn.Spec.Env, func(v v1beta1.EnvVar) bool {
		replaced := slices.ContainsFunc(fn.Spec.Build.TestEnv, func(t v1beta1.EnvVar) bool { return t.Name == v.Name })
		return replaced || v.ValueFrom != nil && v.ValueFrom.SecretKeyRef != nil
	})
	fn.Spec.EnvFrom = slices.DeleteFunc(fn.Spec.EnvFrom, func(from v1beta1.EnvFromSource) bool { return from.SecretRef != nil })
	fn.Spec.Files = slices.DeleteFunc(fn.Spec.Files, func(file v1beta1.File) bool { return file.Secret != nil })
	return fn
}

// TestPolicyName returns the name of the NetworkPolicy of the pods that run the tests of a Function.
// No Function has such a name.
func TestPolicyName(fn *v1beta1.Function) string { return fn.Name + ".tests" }

// TestPolicy returns the NetworkPolicy of the pods that run the tests of a Function. It allows the
// same egress as that of the function, and no ingress.
func TestPolicy(fn *v1beta1.Function, s settings.Settings) *networkingv1ac.NetworkPolicyApplyConfiguration {
	spec := networkingv1ac.NetworkPolicySpec().
		WithPodSelector(metav1ac.LabelSelector().WithMatchLabels(map[string]string{TestsLabel: fn.Name})).
		WithPolicyTypes(networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress).
		WithEgress(toDNS(), toBuildService())
	spec.Egress = append(spec.Egress, s.NetworkPolicyEgress...)
	return networkingv1ac.NetworkPolicy(TestPolicyName(fn), fn.Namespace).
		WithLabels(labels(fn)).
		WithOwnerReferences(owner(fn)).
		WithSpec(spec)
}
