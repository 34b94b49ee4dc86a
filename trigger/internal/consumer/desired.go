package consumer

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	"goless.io/operator/api/v1beta1"
	"goless.io/trigger/api/v1alpha1"
	"goless.io/trigger/internal/apply"
	"goless.io/trigger/internal/functionref"
)

const (
	containerName = "consume"

	// adminPort is the port on which the pods serve their status.
	adminPort = 9090

	// credentials is the directory in which the pods mount the Secrets.
	credentials = "/etc/goless/credentials"

	// lostNodeTimeout is the number of seconds that a pod stays on a node that is not ready or not
	// reachable.
	lostNodeTimeout = 30

	// longestDrain is the number of seconds that a terminating pod waits for running requests.
	longestDrain = 30
)

// A Program is what the pods of a trigger run.
type Program struct {
	// Broker is the first argument of cmd/consume. Args are the arguments for that broker.
	Broker string
	Args   []string

	// DeadLetter is the destination of events that the function does not accept, or "".
	DeadLetter string

	// Secrets are the values that the pods mount as files, by file name.
	Secrets map[string]v1alpha1.SecretKey
}

// file mounts a value of a Secret as a file and passes its path in a flag.
func (p *Program) file(flag, name string, key *v1alpha1.SecretKey) {
	if key != nil {
		p.Secrets[name] = *key
		p.Args = append(p.Args, flag+"="+path.Join(credentials, name))
	}
}

// tls adds the arguments for the verification of servers and for the client certificate.
func (p *Program) tls(t *v1alpha1.StreamTLS) {
	if t == nil {
		return
	}
	p.Args = append(p.Args, "--tls")
	p.file("--ca-file", "ca.crt", t.CA)
	if t.SecretName != "" {
		p.file("--cert-file", corev1.TLSCertKey, &v1alpha1.SecretKey{Name: t.SecretName, Key: corev1.TLSCertKey})
		p.file("--key-file", corev1.TLSPrivateKeyKey, &v1alpha1.SecretKey{Name: t.SecretName, Key: corev1.TLSPrivateKeyKey})
	}
}

// deploymentName returns the name of the Deployment of a trigger. It differs from the name of the
// trigger, because a Function of the same name has a Deployment with that name.
func deploymentName(t v1alpha1.StreamTrigger) string { return t.GetName() + "-trigger" }

// Deployment returns the Deployment of a trigger. url is the URL of the function. If it is empty,
// because the function does not exist or has no Service, the Deployment has no pods. For a stopped
// function, the Deployment has a pod that tries to deliver events, because KEDA may start the
// function when events wait.
//
// The strategy is Recreate, so that two pods never deliver ordered events concurrently.
func Deployment(t v1alpha1.StreamTrigger, program Program, to functionref.Target, url, image string) *appsv1ac.DeploymentApplyConfiguration {
	labels := apply.Labels(t)
	replicas := int32(1)
	if url == "" {
		replicas = 0
	}
	return appsv1ac.Deployment(deploymentName(t), t.GetNamespace()).
		WithLabels(labels).
		WithOwnerReferences(apply.Owner(t)).
		WithSpec(appsv1ac.DeploymentSpec().
			WithReplicas(replicas).
			WithRevisionHistoryLimit(1).
			WithStrategy(appsv1ac.DeploymentStrategy().WithType(appsv1.RecreateDeploymentStrategyType)).
			WithSelector(metav1ac.LabelSelector().WithMatchLabels(labels)).
			WithTemplate(corev1ac.PodTemplateSpec().WithLabels(labels).WithSpec(podOf(t, program, to, url, image))))
}

func podOf(t v1alpha1.StreamTrigger, program Program, to functionref.Target, url, image string) *corev1ac.PodSpecApplyConfiguration {
	container := corev1ac.Container().
		WithName(containerName).
		WithImage(image).
		WithArgs(arguments(t, program, to, url)...).
		WithPorts(corev1ac.ContainerPort().WithName("metrics").WithContainerPort(adminPort).WithProtocol(corev1.ProtocolTCP)).
		WithStartupProbe(probe("/healthz").WithPeriodSeconds(1).WithFailureThreshold(60)).
		WithLivenessProbe(probe("/healthz").WithPeriodSeconds(10).WithTimeoutSeconds(5).WithFailureThreshold(3)).
		WithReadinessProbe(probe("/readyz").WithPeriodSeconds(5).WithTimeoutSeconds(5).WithFailureThreshold(1)).
		WithResources(resources(t.CommonSpec().Resources))
	var volumes []*corev1ac.VolumeApplyConfiguration
	if len(program.Secrets) > 0 {
		container.WithVolumeMounts(corev1ac.VolumeMount().WithName("credentials").WithMountPath(credentials).WithReadOnly(true))
		volumes = append(volumes, corev1ac.Volume().WithName("credentials").WithProjected(projected(program.Secrets)))
	}
	return apply.RestrictedPod(container).WithVolumes(volumes...).WithTerminationGracePeriodSeconds(longestDrain+5).
		WithTolerations(lostNode(corev1.TaintNodeNotReady), lostNode(corev1.TaintNodeUnreachable))
}

// lostNode makes a pod tolerate a taint of its node as long as pods of functions do by default.
// With the 5 minutes of Kubernetes, no events would be delivered for 5 minutes.
func lostNode(taint string) *corev1ac.TolerationApplyConfiguration {
	return corev1ac.Toleration().WithKey(taint).WithOperator(corev1.TolerationOpExists).WithEffect(corev1.TaintEffectNoExecute).
		WithTolerationSeconds(lostNodeTimeout)
}

// projected returns a volume that contains the Secrets as files. The pod starts even if a Secret is
// missing, so that it can report that, and continues when the Secret exists.
func projected(secrets map[string]v1alpha1.SecretKey) *corev1ac.ProjectedVolumeSourceApplyConfiguration {
	volume := corev1ac.ProjectedVolumeSource().WithDefaultMode(0o444)
	for _, file := range slices.Sorted(maps.Keys(secrets)) {
		volume.WithSources(corev1ac.VolumeProjection().WithSecret(corev1ac.SecretProjection().
			WithName(secrets[file].Name).WithOptional(true).
			WithItems(corev1ac.KeyToPath().WithKey(secrets[file].Key).WithPath(file))))
	}
	return volume
}

func probe(path string) *corev1ac.ProbeApplyConfiguration {
	return corev1ac.Probe().WithHTTPGet(corev1ac.HTTPGetAction().WithPath(path).WithPort(intstr.FromString("metrics")))
}

// arguments returns the arguments of cmd/consume. '$' is doubled, because the kubelet expands
// $(NAME).
func arguments(t v1alpha1.StreamTrigger, program Program, to functionref.Target, url string) []string {
	spec := t.CommonSpec()
	args := []string{
		program.Broker,
		"--url=" + url + spec.Path,
		fmt.Sprintf("--timeout=%s", to.Timeout),
		fmt.Sprintf("--source=/apis/%s/namespaces/%s/%ss/%s", v1alpha1.GroupVersion, t.GetNamespace(), strings.ToLower(t.TriggerKind()), t.GetName()),
		fmt.Sprintf("--tries=%d", spec.MaxAttempts),
		fmt.Sprintf("--concurrency=%d", spec.Concurrency),
		"--dead-letter=" + program.DeadLetter,
		fmt.Sprintf("--drop=%t", spec.OnExhausted == v1alpha1.Drop),
		fmt.Sprintf("--drain=%ds", longestDrain),
	}
	if spec.Batch != nil {
		args = append(args, fmt.Sprintf("--batch=%d", spec.Batch.Size))
	}
	args = append(args, program.Args...)
	for i, arg := range args {
		args[i] = strings.ReplaceAll(arg, "$", "$$")
	}
	return args
}

// resources adds the defaults to spec.resources, as for Functions: if only one of request and limit
// is set and the default of the other contradicts it, the default is adjusted.
func resources(asked *v1beta1.Resources) *corev1ac.ResourceRequirementsApplyConfiguration {
	if asked == nil {
		asked = &v1beta1.Resources{}
	}
	requests, limits := apply.Resources("10m", "32Mi", "1Mi"), apply.Resources("", "256Mi", "16Mi")
	wanted := rounded(asked.Limits)
	maps.Copy(requests, rounded(asked.Requests))
	maps.Copy(limits, wanted)
	for name, request := range requests {
		limit, limited := limits[name]
		if !limited || request.Cmp(limit) <= 0 {
			continue
		}
		if _, ok := wanted[name]; ok {
			requests[name] = limit
		} else {
			limits[name] = request
		}
	}
	return corev1ac.ResourceRequirements().WithRequests(requests).WithLimits(limits)
}

// rounded returns amounts rounded up to thousandths, as the API server stores them. Otherwise the
// Deployment would always differ from its desired state.
func rounded(a v1beta1.Amounts) corev1.ResourceList {
	list := a.List()
	for name, amount := range list {
		amount.RoundUp(resource.Milli)
		list[name] = amount
	}
	return list
}
