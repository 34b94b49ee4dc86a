// Package settings reads the configuration file of the operator, in which the administrator of
// a cluster decides for all Functions.
//
// The zero value of every field means its default, so that a file may leave fields out, and
// there need not be a file. Those who read a setting apply its default.
package settings

import (
	"cmp"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	networkingv1ac "k8s.io/client-go/applyconfigurations/networking/v1"

	"goless.io/operator/api/v1beta1"
)

// The version and kind of the file.
const (
	APIVersion = "config.goless.io/v1beta1"
	Kind       = "OperatorConfiguration"
)

// Settings are the settings of the operator. deploy/25-config.yaml shows and
// explains each.
type Settings struct {
	// APIVersion is config.goless.io/v1beta1, and Kind OperatorConfiguration.
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`

	// Images are the images of functions' pods. Those that are left out come
	// from the environment, where deploy/ has them.
	Images Images `json:"images,omitzero"`

	// Namespaces are those whose Functions are reconciled; all when empty.
	Namespaces []string `json:"namespaces,omitempty"`

	// Rollout says when a function that has been built takes changes of the operator itself:
	// new images, settings, another pod template.
	Rollout Rollout `json:"rollout,omitempty"`

	// Admission says whether Functions are validated when they are applied.
	Admission Admission `json:"admission,omitempty"`

	// PodMetadataPrefixes are the prefixes of the labels and annotations of a Function that
	// its pods get too, beside pod.goless.io/.
	PodMetadataPrefixes []string `json:"podMetadataPrefixes,omitempty"`

	// PodUser says which user the pods of functions run as.
	PodUser PodUser `json:"podUser,omitempty"`

	// WatchSecrets restarts the pods of a function when a Secret of its environment changes.
	// It needs the rights of deploy/optional/secrets.yaml.
	WatchSecrets bool `json:"watchSecrets,omitempty"`

	// ReferencePause is the least time between two rollouts of a function because of changed
	// ConfigMaps and Secrets; 0 means 10s.
	ReferencePause metav1.Duration `json:"referencePause,omitzero"`

	// EndpointPropagation is how long a change of the endpoints of a Service takes, at most, until all nodes
	// know of it; 0 means 15s. Functions and the activator serve for so long after they have lost an endpoint.
	EndpointPropagation metav1.Duration `json:"endpointPropagation,omitzero"`

	// LostNodeTimeout is how long pods of functions stay on a node that is not ready or not reachable
	// before they are replaced; 0 means 30s.
	LostNodeTimeout metav1.Duration `json:"lostNodeTimeout,omitzero"`

	// NoDisruptionBudgets turns the PodDisruptionBudgets of functions off.
	NoDisruptionBudgets bool `json:"noDisruptionBudgets,omitempty"`

	// NetworkPolicy gives each function a NetworkPolicy, in namespaces where no other
	// one selects its pods.
	NetworkPolicy bool `json:"networkPolicy,omitempty"`

	// NetworkPolicyEgress are rules of Kubernetes' NetworkPolicies: where functions
	// may connect to beside the DNS of the cluster and the build service.
	NetworkPolicyEgress []networkingv1ac.NetworkPolicyEgressRuleApplyConfiguration `json:"networkPolicyEgress,omitempty"`

	// Function is about the container that serves.
	Function Function `json:"function,omitzero"`

	// Build is about the compile.
	Build Build `json:"build,omitzero"`

	// Class is the spec of the FunctionClass of the Function that the settings are for. It is nil if
	// that has none, and in the settings of the file. See Of.
	Class *v1beta1.FunctionClassSpec `json:"-"`
}

// Images are the container images of a function's pods.
type Images struct {
	// Builder compiles the source, as the init container.
	Builder string `json:"builder,omitempty"`

	// Function is what the compiled program runs in.
	Function string `json:"function,omitempty"`
}

// Rollout says when functions take changes of the operator itself.
type Rollout string

const (
	// OnChange leaves a function alone until its Function changes; the default.
	OnChange Rollout = "OnChange"

	// Always rolls all functions out at once.
	Always Rollout = "Always"
)

// PodUser says which user the pods of functions run as.
type PodUser string

const (
	// PodUserFixed is 65532, user and group; the default.
	PodUserFixed PodUser = "Fixed"

	// PodUserCluster leaves it to the cluster, and to the images where that assigns
	// none. It must not be root.
	PodUserCluster PodUser = "Cluster"
)

// Admission says whether Functions are validated when they are applied.
type Admission string

const (
	// AdmissionEnabled validates them, which is the default of an operator of all namespaces.
	AdmissionEnabled Admission = "Enabled"

	// AdmissionDisabled leaves the validation to the reconciler.
	AdmissionDisabled Admission = "Disabled"
)

// Admits tells whether Functions are validated when they are applied. There is one webhook in a
// cluster, so that an operator of some namespaces has it only if the file says so.
func (s *Settings) Admits() bool {
	return s.Admission == AdmissionEnabled || s.Admission == "" && len(s.Namespaces) == 0
}

const (
	// defaultEndpointPropagation is longer than kube-proxy takes, which writes its rules every 10 seconds at
	// the latest.
	defaultEndpointPropagation = 15 * time.Second

	// maxEndpointPropagation bounds for how long pods stay that have been told to end.
	maxEndpointPropagation = 5 * time.Minute
)

// EndpointsSettle returns EndpointPropagation, or its default.
func (s *Settings) EndpointsSettle() time.Duration {
	return cmp.Or(s.EndpointPropagation.Duration, defaultEndpointPropagation)
}

// Function is about the container that serves.
type Function struct {
	// Resources are the defaults for spec.resources, and MaxResources the most
	// that it may ask for: 4 cpu, 4Gi of memory and 4Gi of ephemeral-storage where
	// it names none.
	Resources    v1beta1.Resources `json:"resources,omitzero"`
	MaxResources v1beta1.Amounts   `json:"maxResources,omitzero"`

	// MaxReplicas is the most that spec.replicas and spec.scaling.max may be; 0 means 100.
	MaxReplicas int32 `json:"maxReplicas,omitempty"`
}

// Build is about the compile.
type Build struct {
	// Strategy is the default for spec.build.strategy, Shared where it is empty.
	Strategy v1beta1.BuildStrategy `json:"strategy,omitempty"`

	// Resources are the defaults for spec.build.resources, and MaxResources the
	// most that it may ask for: 4 cpu, 4Gi of memory and 4Gi of
	// ephemeral-storage where it names none.
	Resources    v1beta1.Resources `json:"resources,omitzero"`
	MaxResources v1beta1.Amounts   `json:"maxResources,omitzero"`

	// Timeout is the default for spec.build.timeout; 0 leaves it to the builder:
	// a minute, or five without a build cache. MaxTimeout is the most that it may
	// be; 0 means 10m.
	Timeout    metav1.Duration `json:"timeout,omitzero"`
	MaxTimeout metav1.Duration `json:"maxTimeout,omitzero"`

	// Modules say where the modules of a go.mod come from.
	Modules v1beta1.Modules `json:"modules,omitzero"`
}
