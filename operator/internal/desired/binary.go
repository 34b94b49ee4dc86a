package desired

import (
	appsv1 "k8s.io/api/apps/v1"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"

	"goless.io/operator/api/v1beta1"
)

// StrategyLabel contains, on pods and ReplicaSets, the build strategy of their source.
const StrategyLabel = "goless.io/strategy"

// Variables that tell the launcher where to fetch its binary. The launcher removes them from the
// environment of the function.
const (
	serviceName    = "FUNCTION_BUILD_SERVICE"
	binaryName     = "FUNCTION_BINARY"
	capabilityName = "FUNCTION_BINARY_CAPABILITY"
	publicKeyName  = "FUNCTION_BINARY_PUBLIC_KEY"
)

// Binary is a program that the build service has compiled or is compiling.
type Binary struct {
	// Service is the URL of the build service.
	Service string

	// Key identifies the binary. It is a hash of all inputs of the build.
	Key string

	// Capability is the secret that authorizes fetching this binary, and no other.
	Capability string

	// PublicKey verifies the service and its signatures.
	PublicKey string
}

// env returns the variables that identify the binary. They follow the user's variables so that
// those cannot expand $(FUNCTION_BINARY_CAPABILITY).
func (b *Binary) env() []*envVar {
	return []*envVar{
		env(serviceName, b.Service), env(binaryName, b.Key), env(capabilityName, b.Capability), env(publicKeyName, b.PublicKey),
	}
}

// replace overwrites v with the variable of b that has the given name, if there is one.
func (b *Binary) replace(v *envVar, name string) {
	for _, own := range b.env() {
		if *own.Name == name {
			*v = *own
		}
	}
}

// BinaryFor returns the binary that the pods of a Deployment run. It returns nil if they run a
// different source from that of the Function, or compile the source themselves.
func BinaryFor(d *appsv1ac.DeploymentApplyConfiguration, fn *v1beta1.Function) *Binary {
	if podTemplate(d).Annotations[sourceAnnotation] != Summary(fn).SHA256 {
		return nil
	}
	return BinaryIn(d)
}

// BinaryIn returns the binary that the pods of a Deployment run, or nil if they compile the source
// themselves.
func BinaryIn(d *appsv1ac.DeploymentApplyConfiguration) *Binary {
	var b Binary
	parts := map[string]*string{serviceName: &b.Service, binaryName: &b.Key, capabilityName: &b.Capability, publicKeyName: &b.PublicKey}
	if pod := podTemplate(d).Spec; pod != nil && len(pod.Containers) == 1 {
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

// MarkAwaitsBuild marks a Deployment whose binary is still being compiled, and returns it.
func MarkAwaitsBuild(d *appsv1ac.DeploymentApplyConfiguration) *appsv1ac.DeploymentApplyConfiguration {
	return d.WithLabels(map[string]string{awaitsBuildLabel: "true"})
}

// AwaitsBuildIn reports whether a Deployment that the operator has applied has the mark of MarkAwaitsBuild.
// The mark may remain after the build, when the pods already serve. d may be nil.
func AwaitsBuildIn(d *appsv1ac.DeploymentApplyConfiguration) bool {
	return hasTemplate(d) && d.Labels[awaitsBuildLabel] != ""
}

// AwaitsBuildOf reports whether a Deployment read from the cluster has the mark of MarkAwaitsBuild.
func AwaitsBuildOf(d *appsv1.Deployment) bool { return d.Labels[awaitsBuildLabel] != "" }

func strategyOf(binary *Binary) v1beta1.BuildStrategy {
	if binary == nil {
		return v1beta1.BuildInPod
	}
	return v1beta1.BuildShared
}
