package desired

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/settings"
)

const (
	// FunctionContainer is the name of the container that serves.
	FunctionContainer = "function"

	portHTTP    = "http"
	portMetrics = "metrics"

	// nonroot is the user and group of all containers, unless the cluster assigns others. The base
	// images of ko use it.
	nonroot = 65532
)

// podSpec returns the spec of pods that run binary, or that compile the source if binary is nil.
func podSpec(fn *v1beta1.Function, s settings.Settings, binary *Binary) *corev1ac.PodSpecApplyConfiguration {
	security := corev1ac.PodSecurityContext().
		WithRunAsNonRoot(true).
		WithSeccompProfile(corev1ac.SeccompProfile().WithType(corev1.SeccompProfileTypeRuntimeDefault))
	setUser(security, s)
	if fn.Port() < 1024 {
		// The safe sysctl that lets a process without capabilities bind the port.
		security.WithSysctls(corev1ac.Sysctl().WithName("net.ipv4.ip_unprivileged_port_start").WithValue("0"))
	}
	volumes, mounts := separate(functionVolumes(fn))
	function := functionContainer(fn, s).WithVolumeMounts(mounts...)
	pod := corev1ac.PodSpec().
		WithAutomountServiceAccountToken(false).
		WithEnableServiceLinks(false).
		WithTerminationGracePeriodSeconds(gracePeriodSeconds(fn, s)).
		WithSecurityContext(security).
		WithTopologySpreadConstraints(spreadOverNodes(fn)).
		WithAffinity(preferOtherZones(fn)).
		WithVolumes(volumes...)
	runAs(pod, fn)
	applyClass(pod, fn, s.Class)
	tolerateLostNode(pod, s)
	if binary != nil {
		return pod.WithContainers(function.WithEnv(binary.env()...))
	}
	return inPod(pod, function, fn, s)
}

// The liveness probe of a function, in seconds.
const (
	livenessDelay    = 60
	livenessPeriod   = 10
	livenessFailures = 6

	// UnhealthyAfter is the minimum time after which the kubelet restarts a function that does not
	// answer its liveness probe.
	UnhealthyAfter = (livenessDelay + (livenessFailures-1)*livenessPeriod) * time.Second
)

// functionContainer returns the container that serves.
func functionContainer(fn *v1beta1.Function, s settings.Settings) *corev1ac.ContainerApplyConfiguration {
	return container(FunctionContainer, s.Images.Function, functionResources(fn, s)).
		WithEnv(functionEnv(fn, s, LatestRevision(fn))...).
		WithEnvFrom(functionEnvFrom(fn)...).
		WithPorts(
			containerPort(portHTTP, fn.Port()),
			containerPort(portMetrics, v1beta1.AdminPort),
		).
		// There is no startup probe: the kubelet checks readiness only after it, which makes
		// every start 0.6 s slower. The initial delay covers slow starts.
		WithReadinessProbe(probe("/readyz").WithPeriodSeconds(1).WithFailureThreshold(3)).
		WithLivenessProbe(probe("/healthz").WithInitialDelaySeconds(livenessDelay).WithPeriodSeconds(livenessPeriod).WithFailureThreshold(livenessFailures)).
		// A panic, which is written to stderr, appears in the status.
		WithTerminationMessagePolicy(corev1.TerminationMessageFallbackToLogsOnError)
}

// container returns a container that complies with the restricted Pod Security Standard.
func container(name, image string, resources *corev1ac.ResourceRequirementsApplyConfiguration) *corev1ac.ContainerApplyConfiguration {
	return corev1ac.Container().
		WithName(name).
		WithImage(image).
		WithImagePullPolicy(corev1.PullIfNotPresent).
		WithResources(resources).
		WithSecurityContext(corev1ac.SecurityContext().
			WithAllowPrivilegeEscalation(false).
			WithReadOnlyRootFilesystem(true).
			WithCapabilities(corev1ac.Capabilities().WithDrop("ALL")))
}

// probe returns a probe of the admin port, which reports on the process and not on the author's
// handler: a busy handler does not cause a restart.
func probe(path string) *corev1ac.ProbeApplyConfiguration {
	return corev1ac.Probe().
		WithHTTPGet(corev1ac.HTTPGetAction().WithPath(path).WithPort(intstr.FromString(portMetrics))).
		WithTimeoutSeconds(5)
}

func containerPort(name string, port int32) *corev1ac.ContainerPortApplyConfiguration {
	return corev1ac.ContainerPort().WithName(name).WithContainerPort(port).WithProtocol(corev1.ProtocolTCP)
}

func portString(port int32) string { return strconv.Itoa(int(port)) }

// spreadOverNodes spreads the replicas of one template over nodes, if possible. It does not depend on
// the number of replicas, because scaling must not change the template.
func spreadOverNodes(fn *v1beta1.Function) *corev1ac.TopologySpreadConstraintApplyConfiguration {
	return corev1ac.TopologySpreadConstraint().
		WithTopologyKey(corev1.LabelHostname).
		WithMaxSkew(1).
		WithWhenUnsatisfiable(corev1.ScheduleAnyway).
		WithMatchLabelKeys("pod-template-hash").
		WithLabelSelector(metav1ac.LabelSelector().WithMatchLabels(Selector(fn.Name)))
}

// preferOtherZones spreads the replicas over zones, if possible. A second topology spread constraint
// would not: the scheduler ignores all constraints on nodes that lack the label of one of them, so
// that replicas would not be spread over nodes in clusters without zones.
func preferOtherZones(fn *v1beta1.Function) *corev1ac.AffinityApplyConfiguration {
	other := corev1ac.PodAffinityTerm().
		WithTopologyKey(corev1.LabelTopologyZone).
		WithLabelSelector(metav1ac.LabelSelector().WithMatchLabels(Selector(fn.Name)))
	return corev1ac.Affinity().WithPodAntiAffinity(corev1ac.PodAntiAffinity().
		WithPreferredDuringSchedulingIgnoredDuringExecution(
			corev1ac.WeightedPodAffinityTerm().WithWeight(100).WithPodAffinityTerm(other)))
}

// defaultLostNodeTimeout is the default time after which pods on a lost node are replaced.
const defaultLostNodeTimeout = 30 * time.Second

// tolerateLostNode sets how long a pod stays on a node that is not ready or unreachable. The
// default of Kubernetes is 5 minutes, during which a function of one replica would be down. A
// toleration of the class for such a taint is kept.
func tolerateLostNode(pod *corev1ac.PodSpecApplyConfiguration, s settings.Settings) {
	seconds := int64(math.Ceil(cmp.Or(s.LostNodeTimeout.Duration, defaultLostNodeTimeout).Seconds()))
	for _, taint := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
		if !slices.ContainsFunc(pod.Tolerations, func(t corev1ac.TolerationApplyConfiguration) bool { return covers(t, taint) }) {
			pod.WithTolerations(corev1ac.Toleration().
				WithKey(taint).
				WithOperator(corev1.TolerationOpExists).
				WithEffect(corev1.TaintEffectNoExecute).
				WithTolerationSeconds(seconds))
		}
	}
}

// covers reports whether a toleration matches a taint that evicts pods, by the same rules as the
// API server, which would otherwise add its own toleration of 5 minutes.
func covers(t corev1ac.TolerationApplyConfiguration, taint string) bool {
	anyKey, anyEffect := t.Key == nil || *t.Key == "", t.Effect == nil || *t.Effect == ""
	return (anyKey || *t.Key == taint) && (anyEffect || *t.Effect == corev1.TaintEffectNoExecute)
}

// runAs sets the ServiceAccount of a pod in both fields of the API: if only one was removed later,
// the deprecated one would restore the account.
func runAs(pod *corev1ac.PodSpecApplyConfiguration, fn *v1beta1.Function) {
	if name := fn.Spec.ServiceAccountName; name != "" {
		pod.WithServiceAccountName(name).WithDeprecatedServiceAccount(name)
	}
}
