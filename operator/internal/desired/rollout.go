package desired

import (
	"encoding/json"
	"maps"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"goless.io/operator/api/v1beta1"
)

// rolloutAnnotation contains, on Deployments of functions whose rollouts are verified, a [Rollout].
// It is written together with the pod template, so that the two always match.
const rolloutAnnotation = "goless.io/rollout"

// VerifyMargin is how much longer than spec.rollout.verify.for a rollout waits for the decision of
// the operator, which may be restarting. After this time, the Deployment controller continues it.
const VerifyMargin = time.Minute

// defaultProgressDeadline is the default of Deployments, in seconds.
const defaultProgressDeadline = 600

// A Rollout is the state of the verification of a Function's latest rollout. Both fields are nil if
// the version in the Deployment need not be verified.
type Rollout struct {
	// Previous is the version that is restored if the one in the Deployment is worse. It is nil if
	// that is not being verified.
	Previous *Version `json:"previous,omitempty"`

	// RolledBack is the version that was worse than the one in the Deployment; nil if there is none.
	RolledBack *RolledBack `json:"rolledBack,omitempty"`
}

// A Version identifies a version that is or was in the Deployment.
type Version struct {
	// Record is the name of its ControllerRevision.
	Record string `json:"record"`

	// Spec and Class are the values of SpecHashLabel and ClassLabel.
	Spec  string `json:"spec"`
	Class string `json:"class,omitempty"`
}

// RolledBack is a version that was worse than the previous one.
type RolledBack struct {
	Version `json:",inline"`

	// Verify is the digest of the spec.rollout.verify that it was verified with.
	Verify string `json:"verify"`

	// Message is the reason.
	Message string `json:"message"`
}

// RolloutOf returns the state in a Deployment, given the fields that the operator owns. It is empty
// if there is none, or if another client has changed it.
func RolloutOf(owned *appsv1ac.DeploymentApplyConfiguration) (r Rollout) {
	if owned == nil || owned.ObjectMetaApplyConfiguration == nil || json.Unmarshal([]byte(owned.Annotations[rolloutAnnotation]), &r) != nil {
		return Rollout{}
	}
	return r
}

// IsVerified reports whether a rollout of a Deployment of the cluster is being verified.
func IsVerified(d *appsv1.Deployment) bool {
	var r Rollout
	return json.Unmarshal([]byte(d.Annotations[rolloutAnnotation]), &r) == nil && r.Previous != nil
}

// VersionOf returns the version in a Deployment.
func VersionOf(d *appsv1ac.DeploymentApplyConfiguration) Version {
	return Version{Record: RecordName(d), Spec: d.Labels[SpecHashLabel], Class: d.Labels[ClassLabel]}
}

// Verify makes the rollout of a Deployment stop at one new pod, and records the previous version in
// the Deployment. A pod that is ready counts as available, and replaces an old one, after
// minReadySeconds. The API server requires that the progress deadline is longer.
func Verify(d *appsv1ac.DeploymentApplyConfiguration, previous Version, verify *v1beta1.Verify) {
	hold := int32((verify.Duration() + VerifyMargin).Seconds())
	deadline := int32(defaultProgressDeadline)
	if d.Spec.ProgressDeadlineSeconds != nil {
		deadline = *d.Spec.ProgressDeadlineSeconds
	}
	d.Spec.WithMinReadySeconds(hold).WithProgressDeadlineSeconds(deadline + hold)
	d.Spec.Strategy.RollingUpdate.WithMaxSurge(intstr.FromInt32(1))
	d.WithAnnotations(map[string]string{rolloutAnnotation: encode(Rollout{Previous: &previous})})
}

// Restore returns a Deployment with the template of a previous version.
func Restore(d *appsv1ac.DeploymentApplyConfiguration, v Version, template *corev1ac.PodTemplateSpecApplyConfiguration) *appsv1ac.DeploymentApplyConfiguration {
	restored, meta, spec := *d, *d.ObjectMetaApplyConfiguration, *d.Spec
	meta.Labels = maps.Clone(d.Labels)
	meta.Labels[SpecHashLabel] = v.Spec
	delete(meta.Labels, ClassLabel)
	if v.Class != "" {
		meta.Labels[ClassLabel] = v.Class
	}
	spec.Template = template
	restored.ObjectMetaApplyConfiguration, restored.Spec = &meta, &spec
	return &restored
}

// SetRolledBack records in a Deployment that another version was worse.
func SetRolledBack(d *appsv1ac.DeploymentApplyConfiguration, rolledBack RolledBack) {
	d.WithAnnotations(map[string]string{rolloutAnnotation: encode(Rollout{RolledBack: &rolledBack})})
}

func encode(r Rollout) string {
	text, err := json.Marshal(r)
	if err != nil {
		panic(err) // strings only
	}
	return string(text)
}
