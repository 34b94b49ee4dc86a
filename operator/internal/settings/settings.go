// Package settings owns what the administrator of a cluster decides for all
// Functions: the configuration file of the operator. It refuses to know what a
// setting does to a pod, which package desired decides.
//
// The zero value of every field is what holds when the file leaves it out, so
// an empty file, and no file, are fine.
package settings

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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

	// Namespaces are those whose Functions are looked after; all when empty.
	Namespaces []string `json:"namespaces,omitempty"`

	// Rollout says when a function that has been built takes what the operator
	// brings by itself: new images, settings, a new shape of the pods.
	Rollout Rollout `json:"rollout,omitempty"`

	// Admission says whether Functions are judged when they are applied.
	Admission Admission `json:"admission,omitempty"`

	// PodMetadataPrefixes begin the names of those labels and annotations of a
	// Function that its pods get too, beside pod.goless.io/.
	PodMetadataPrefixes []string `json:"podMetadataPrefixes,omitempty"`

	// WatchSecrets rolls a function out anew when a Secret of its environment
	// changes. It needs the rights of deploy/optional/secrets.yaml.
	WatchSecrets bool `json:"watchSecrets,omitempty"`

	// ReferencePause is the least time from one rollout of a function, because of
	// what its environment comes from, to the next; 0 means 10s.
	ReferencePause metav1.Duration `json:"referencePause,omitzero"`

	// NoDisruptionBudgets leaves it to others to make PodDisruptionBudgets.
	NoDisruptionBudgets bool `json:"noDisruptionBudgets,omitempty"`

	// NetworkPolicy gives each function a NetworkPolicy.
	NetworkPolicy bool `json:"networkPolicy,omitempty"`

	// Function is about the container that serves.
	Function Function `json:"function,omitzero"`

	// Build is about the compile.
	Build Build `json:"build,omitzero"`
}

// Images are the container images of a function's pods.
type Images struct {
	// Builder compiles the source, as the init container.
	Builder string `json:"builder,omitempty"`

	// Function is what the compiled program runs in.
	Function string `json:"function,omitempty"`
}

// Rollout says when functions take what the operator brings by itself.
type Rollout string

const (
	// OnChange leaves a function alone until its Function changes; the default.
	OnChange Rollout = "OnChange"

	// Always rolls all functions out at once.
	Always Rollout = "Always"
)

// Admission says whether Functions are judged when they are applied.
type Admission string

const (
	// AdmissionEnabled judges them, which is the default where all namespaces are
	// looked after.
	AdmissionEnabled Admission = "Enabled"

	// AdmissionDisabled leaves it to the reconciler to say what is wrong.
	AdmissionDisabled Admission = "Disabled"
)

// Admits tells whether Functions are judged when they are applied. The webhook is
// one of the whole cluster, so an operator of some namespaces has to be told to
// have it.
func (s *Settings) Admits() bool {
	return s.Admission == AdmissionEnabled || s.Admission == "" && len(s.Namespaces) == 0
}

// Function is about the container that serves.
type Function struct {
	// Resources are the defaults for spec.resources, and MaxResources the most
	// that it may ask for.
	Resources    v1beta1.Resources `json:"resources,omitzero"`
	MaxResources v1beta1.Amounts   `json:"maxResources,omitzero"`

	// MaxReplicas is the most that spec.replicas may be; 0 means any number.
	MaxReplicas int32 `json:"maxReplicas,omitempty"`
}

// Build is about the compile.
type Build struct {
	// Strategy is the default for spec.build.strategy, InPod where it is empty.
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
	Modules Modules `json:"modules,omitzero"`
}

// Modules say where the modules of a go.mod come from. The first eight are
// environment variables of the go command, with their meaning and defaults. They
// reach the container that compiles a source with a go.mod, and nothing else.
type Modules struct {
	GoProxy    string `json:"goProxy,omitempty"` // off refuses every source that needs a module
	GoPrivate  string `json:"goPrivate,omitempty"`
	GoNoProxy  string `json:"goNoProxy,omitempty"`
	GoNoSumDB  string `json:"goNoSumDB,omitempty"`
	GoSumDB    string `json:"goSumDB,omitempty"`
	HTTPProxy  string `json:"httpProxy,omitempty"`
	HTTPSProxy string `json:"httpsProxy,omitempty"`
	NoProxy    string `json:"noProxy,omitempty"`

	// CABundle is a ConfigMap with certificates to trust, and Netrc a Secret with
	// a .netrc file of credentials. Both are looked for in the namespace of each
	// Function, and need not be there.
	CABundle Key `json:"caBundle,omitzero"`
	Netrc    Key `json:"netrc,omitzero"`
}

// Key names a key of a ConfigMap or of a Secret.
type Key struct {
	Name string `json:"name"`
	Key  string `json:"key"`
}
