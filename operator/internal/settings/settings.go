// Package settings reads the configuration file of the operator, with which a cluster administrator
// configures all Functions.
//
// The file is optional, and may omit every field except apiVersion and kind. The zero value of a
// field means its default. The code that uses a setting applies its default.
package settings

import (
	"cmp"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	networkingv1ac "k8s.io/client-go/applyconfigurations/networking/v1"

	"goless.io/operator/api/v1beta1"
)

// APIVersion and Kind are the required apiVersion and kind of the file.
const (
	APIVersion = "config.goless.io/v1beta1"
	Kind       = "OperatorConfiguration"
)

// Settings is the content of the configuration file. deploy/25-config.yaml documents each field for
// users.
type Settings struct {
	// APIVersion must be config.goless.io/v1beta1, and Kind OperatorConfiguration.
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`

	// Images are the images in the pods of functions. The defaults come from environment variables,
	// which deploy/ sets.
	Images Images `json:"images,omitzero"`

	// Namespaces are the namespaces whose Functions are reconciled. Default: all.
	Namespaces []string `json:"namespaces,omitempty"`

	// Rollout determines when a function that is already built is updated after a change to the
	// operator itself: new images, settings or pod template. Default: OnChange.
	Rollout Rollout `json:"rollout,omitempty"`

	// Admission enables or disables the validating webhook. Default: Enabled if Namespaces is
	// empty, otherwise Disabled.
	Admission Admission `json:"admission,omitempty"`

	// PodMetadataPrefixes are prefixes of the labels and annotations that are copied from a
	// Function to its pods, in addition to pod.goless.io/. Each is a domain followed by a slash,
	// and not within kubernetes.io, k8s.io or goless.io.
	PodMetadataPrefixes []string `json:"podMetadataPrefixes,omitempty"`

	// PodUser determines the user of function pods. Default: Fixed.
	PodUser PodUser `json:"podUser,omitempty"`

	// WatchSecrets restarts the pods of a function when a Secret in its environment changes. It
	// requires the RBAC rules of deploy/optional/secrets.yaml. Default: false.
	WatchSecrets bool `json:"watchSecrets,omitempty"`

	// ReferencePause is the minimum time between two rollouts of a function caused by changes to
	// its ConfigMaps or Secrets. Default: 10s. It must not be negative.
	ReferencePause metav1.Duration `json:"referencePause,omitzero"`

	// EndpointPropagation is the longest time until a change of the endpoints of a Service has
	// reached all nodes. Functions and the activator continue to serve for this time after they are
	// removed from the endpoints. Default: 15s. Maximum: 5m.
	EndpointPropagation metav1.Duration `json:"endpointPropagation,omitzero"`

	// LostNodeTimeout is the time for which function pods stay on a node that is not ready or
	// unreachable before they are replaced. Default: 30s. It must not be negative.
	LostNodeTimeout metav1.Duration `json:"lostNodeTimeout,omitzero"`

	// NoDisruptionBudgets disables the PodDisruptionBudgets of functions. Default: false.
	NoDisruptionBudgets bool `json:"noDisruptionBudgets,omitempty"`

	// NetworkPolicy creates a NetworkPolicy for each function, unless another one in the namespace
	// selects its pods. Default: false.
	NetworkPolicy bool `json:"networkPolicy,omitempty"`

	// NetworkPolicyEgress contains egress rules for these policies, in addition to the cluster DNS
	// and the build service. Default: none.
	NetworkPolicyEgress []networkingv1ac.NetworkPolicyEgressRuleApplyConfiguration `json:"networkPolicyEgress,omitempty"`

	// Function configures the container that serves.
	Function Function `json:"function,omitzero"`

	// Build configures builds.
	Build Build `json:"build,omitzero"`

	// Class is the spec of the class of the Function to which the settings apply. It is nil for
	// settings that come only from the file, or if the Function has no class; see Of.
	Class *v1beta1.FunctionClassSpec `json:"-"`
}

// Images are the container images of function pods.
type Images struct {
	// Builder is the image of the init container that compiles the source.
	Builder string `json:"builder,omitempty"`

	// Function is the image of the container that serves.
	Function string `json:"function,omitempty"`
}

// Rollout determines when functions are updated after a change to the operator itself.
type Rollout string

const (
	// OnChange updates a function when its spec, a ConfigMap that it uses, its class or its upgrade
	// annotation changes, or when its pods cannot start with the images or the binary of the
	// previous version of Goless. This is the default.
	OnChange Rollout = "OnChange"

	// Always updates all functions immediately.
	Always Rollout = "Always"
)

// PodUser determines the user of function pods.
type PodUser string

const (
	// PodUserFixed uses user and group 65532. This is the default.
	PodUserFixed PodUser = "Fixed"

	// PodUserCluster uses the user that the cluster assigns, or else the user of the image. It must
	// not be root.
	PodUserCluster PodUser = "Cluster"
)

// Admission enables or disables the validating webhook.
type Admission string

const (
	// AdmissionEnabled validates Functions when they are applied. This is the default if the
	// operator watches all namespaces.
	AdmissionEnabled Admission = "Enabled"

	// AdmissionDisabled leaves the validation to the reconciler.
	AdmissionDisabled Admission = "Disabled"
)

// Admits reports whether the validating webhook is enabled. The webhook is cluster-wide, so an
// operator that watches only some namespaces serves it only if the file enables it.
func (s *Settings) Admits() bool {
	return s.Admission == AdmissionEnabled || s.Admission == "" && len(s.Namespaces) == 0
}

const (
	// defaultEndpointPropagation is longer than the 10 seconds within which kube-proxy writes its
	// rules.
	defaultEndpointPropagation = 15 * time.Second

	// maxEndpointPropagation limits the time for which terminating pods remain.
	maxEndpointPropagation = 5 * time.Minute
)

// EndpointsSettle returns EndpointPropagation or its default.
func (s *Settings) EndpointsSettle() time.Duration {
	return cmp.Or(s.EndpointPropagation.Duration, defaultEndpointPropagation)
}

// Function configures the container that serves.
type Function struct {
	// Resources contains the defaults of spec.resources, and MaxResources limits it. Each amount
	// that MaxResources does not set has a default: 4 cpu, 4Gi of memory, 4Gi of ephemeral-storage.
	Resources    v1beta1.Resources `json:"resources,omitzero"`
	MaxResources v1beta1.Amounts   `json:"maxResources,omitzero"`

	// MaxReplicas limits spec.replicas and spec.scaling.max. Default: 100. It must not be negative.
	MaxReplicas int32 `json:"maxReplicas,omitempty"`
}

// Build configures builds.
type Build struct {
	// Strategy is the default of spec.build.strategy. Default: Shared.
	Strategy v1beta1.BuildStrategy `json:"strategy,omitempty"`

	// Resources contains the defaults of spec.build.resources, and MaxResources limits it. Each
	// amount that MaxResources does not set has a default: 4 cpu, 4Gi of memory, 4Gi of
	// ephemeral-storage.
	Resources    v1beta1.Resources `json:"resources,omitzero"`
	MaxResources v1beta1.Amounts   `json:"maxResources,omitzero"`

	// Timeout is the default of spec.build.timeout. 0 means the default of the builder: one minute.
	// MaxTimeout limits spec.build.timeout. Default: 10m. Neither may be negative.
	Timeout    metav1.Duration `json:"timeout,omitzero"`
	MaxTimeout metav1.Duration `json:"maxTimeout,omitzero"`

	// Modules configures how the modules of a go.mod are downloaded.
	Modules v1beta1.Modules `json:"modules,omitzero"`
}
