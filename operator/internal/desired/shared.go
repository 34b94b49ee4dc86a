package desired

import (
	"maps"
	"slices"

	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"goless.io/operator/api/v1beta1"
)

// StrategyLabel holds, on pods and ReplicaSets, the strategy by which they are built.
const StrategyLabel = "goless.io/strategy"

// Variables that tell the launcher where its binary is. The launcher removes them from the
// environment of the function.
const (
	serviceName    = "FUNCTION_BUILD_SERVICE"
	binaryName     = "FUNCTION_BINARY"
	capabilityName = "FUNCTION_BINARY_CAPABILITY"
	publicKeyName  = "FUNCTION_BINARY_PUBLIC_KEY"
)

// A Binary is a program that the build service has compiled.
type Binary struct {
	// Service is the URL of the build service.
	Service string

	// Key identifies the binary by a hash of everything that its content depends on.
	Key string

	// Capability is the secret that allows to fetch this binary, and no other.
	Capability string

	// PublicKey verifies the service and its signatures.
	PublicKey string
}

// env returns the variables that name the binary. They are placed after user variables
// so that those cannot expand $(FUNCTION_BINARY_CAPABILITY).
func (b *Binary) env() []*envVar {
	return []*envVar{
		env(serviceName, b.Service), env(binaryName, b.Key), env(capabilityName, b.Capability), env(publicKeyName, b.PublicKey),
	}
}

// BinaryOf is the binary that the pods of a Deployment run, as far as the operator
// has written it; nil when it is of another source, or there is none.
func BinaryOf(owned *appsv1ac.DeploymentApplyConfiguration, fn *v1beta1.Function) *Binary {
	if !hasTemplate(owned) || owned.Spec.Template.Annotations[sourceAnnotation] != Summary(fn).SHA256 {
		return nil
	}
	return binaryIn(owned.Spec.Template)
}

// BinaryIn is the binary that the pods of a Deployment run; nil when they compile.
func BinaryIn(d *appsv1ac.DeploymentApplyConfiguration) *Binary {
	if !hasTemplate(d) {
		return nil
	}
	return binaryIn(d.Spec.Template)
}

// WithBinary returns a Deployment whose pods run another binary of the same source, and are
// otherwise as before.
func WithBinary(d *appsv1ac.DeploymentApplyConfiguration, binary *Binary) *appsv1ac.DeploymentApplyConfiguration {
	bound, spec, template, meta, pod := *d, *d.Spec, *d.Spec.Template, *d.Spec.Template.ObjectMetaApplyConfiguration, *d.Spec.Template.Spec
	function := pod.Containers[0]
	function.Env = slices.DeleteFunc(slices.Clone(function.Env), func(v envVar) bool { return slices.Contains(binaryNames, *v.Name) })
	function.WithEnv(binary.env()...)
	pod.Containers = []corev1ac.ContainerApplyConfiguration{function}
	meta.Labels = maps.Clone(meta.Labels)
	bound.Spec, spec.Template, template.ObjectMetaApplyConfiguration, template.Spec = &spec, &template, &meta, &pod
	template.WithLabels(map[string]string{TemplateLabel: templateHash(&template)})
	return &bound
}

// binaryNames are the names of Binary.env.
var binaryNames = []string{serviceName, binaryName, capabilityName, publicKeyName}

// binaryIn is the binary that pods of a template run; nil when there is none.
func binaryIn(template *corev1ac.PodTemplateSpecApplyConfiguration) *Binary {
	var b Binary
	parts := map[string]*string{serviceName: &b.Service, binaryName: &b.Key, capabilityName: &b.Capability, publicKeyName: &b.PublicKey}
	if pod := template.Spec; pod != nil && len(pod.Containers) == 1 {
		for _, v := range pod.Containers[0].Env {
			if into := parts[*v.Name]; into != nil && v.Value != nil {
				*into = *v.Value
			}
		}
	}
	if b.Service == "" || b.Key == "" || b.Capability == "" || b.PublicKey == "" {
		return nil
	}
	return &b
}

func strategyOf(binary *Binary) v1beta1.BuildStrategy {
	if binary == nil {
		return v1beta1.BuildInPod
	}
	return v1beta1.BuildShared
}
