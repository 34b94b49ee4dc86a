package desired

import (
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"

	"goless.io/operator/api/v1beta1"
)

// StrategyLabel holds, on pods and ReplicaSets, where their source is compiled.
const StrategyLabel = "goless.io/strategy"

// Variables that tell the launcher where its binary is. It takes them out of the
// function's environment.
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

	// Key identifies the binary, by all that decides about its content.
	Key string

	// Capability lets who has it fetch this binary, and no other.
	Capability string

	// PublicKey is that of the service and of its signatures.
	PublicKey string
}

// env goes after that of the user, none of whose values can contain it so.
func (b *Binary) env() []*envVar {
	return []*envVar{
		env(serviceName, b.Service), env(binaryName, b.Key), env(capabilityName, b.Capability), env(publicKeyName, b.PublicKey),
	}
}

// BinaryOf is the binary that the pods of a Deployment run, as far as the operator
// has written it; nil when it is of another source, or there is none.
func BinaryOf(owned *appsv1ac.DeploymentApplyConfiguration, source string) *Binary {
	if !hasTemplate(owned) || owned.Spec.Template.Annotations[sourceAnnotation] != sourceHash(source) {
		return nil
	}
	var b Binary
	parts := map[string]*string{serviceName: &b.Service, binaryName: &b.Key, capabilityName: &b.Capability, publicKeyName: &b.PublicKey}
	if pod := owned.Spec.Template.Spec; pod != nil && len(pod.Containers) == 1 {
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
