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
	"goless.io/operator/internal/verification"
)

// verificationAnnotation contains the [Verification] of a Deployment, as JSON. It is written together
// with the pod template, so that the two always match.
const verificationAnnotation = "goless.io/verification"

// VerifyMargin is added to the longest time of a verification in minReadySeconds, because the operator
// may be restarting. If it does not decide in this time, the Deployment controller continues the
// rollout.
const VerifyMargin = time.Minute

// defaultProgressDeadline is the default of Deployments, in seconds.
const defaultProgressDeadline = 600

// A Verification is the state of the verification of a Deployment's rollout. Both fields are nil if no
// version is being verified and none was rolled back.
type Verification struct {
	// Previous is the version to restore if the version in the Deployment fails its verification; nil
	// if no verification is in progress.
	Previous *Version `json:"previous,omitempty"`

	// Rejected is the version that failed its verification and was replaced by the version in the
	// Deployment; nil if there is none.
	Rejected *RejectedVersion `json:"rejected,omitempty"`
}

// A Version identifies a version that is or was in the Deployment.
type Version struct {
	// Record is the name of its ControllerRevision.
	Record string `json:"record"`

	// Spec and Class are the values of SpecHashLabel and ClassLabel.
	Spec  string `json:"spec"`
	Class string `json:"class,omitempty"`
}

// A RejectedVersion is a version that failed its verification.
type RejectedVersion struct {
	Version `json:",inline"`

	// SpecWithoutValues is like Spec, without the values that the environment and the files refer to.
	SpecWithoutValues string `json:"specWithoutValues,omitempty"`

	// Verify is the digest of the spec.rollout.verify that it was verified with.
	Verify string `json:"verify"`

	// Message is the reason.
	Message string `json:"message"`
}

// BeingVerified reports whether a rollout of a Deployment read from the cluster is being verified.
func BeingVerified(d *appsv1.Deployment) bool {
	var v Verification
	return json.Unmarshal([]byte(d.Annotations[verificationAnnotation]), &v) == nil && v.Previous != nil
}

// VerificationIn returns the state in a Deployment, given the fields that the operator owns. It is
// empty if there is none, or if another client has changed it.
func VerificationIn(owned *appsv1ac.DeploymentApplyConfiguration) (v Verification) {
	if owned == nil || owned.ObjectMetaApplyConfiguration == nil || json.Unmarshal([]byte(owned.Annotations[verificationAnnotation]), &v) != nil {
		return Verification{}
	}
	return v
}

// VersionIn returns the version in a Deployment.
func VersionIn(d *appsv1ac.DeploymentApplyConfiguration) Version {
	return Version{Record: RecordName(d), Spec: d.Labels[SpecHashLabel], Class: d.Labels[ClassLabel]}
}

// holdSeconds returns how long the Deployment controller waits for the result of a verification.
func holdSeconds(fn *v1beta1.Function) int32 {
	return int32((verification.LimitsOf(fn, "").Longest() + VerifyMargin).Seconds())
}

// progressDeadline returns the progress deadline of a Function's Deployment; nil for the default. The
// time of a verification is added, because the Deployment makes no progress in it.
func progressDeadline(fn *v1beta1.Function) *int32 {
	deadline := fn.Spec.ProgressDeadlineSeconds
	if !fn.Verifies() {
		return deadline
	}
	if deadline == nil {
		deadline = new(int32(defaultProgressDeadline))
	}
	return new(*deadline + holdSeconds(fn))
}

// Hold pauses the rollout after one new pod, by setting maxSurge to 1 and minReadySeconds to the
// longest time of a verification plus VerifyMargin, and records the previous version. A ready pod
// counts as available, and replaces an old one, after minReadySeconds.
func Hold(d *appsv1ac.DeploymentApplyConfiguration, fn *v1beta1.Function, previous Version) {
	d.Spec.WithMinReadySeconds(holdSeconds(fn))
	d.Spec.Strategy.RollingUpdate.WithMaxSurge(intstr.FromInt32(1))
	d.WithAnnotations(map[string]string{verificationAnnotation: encode(Verification{Previous: &previous})})
}

// Restore returns a Deployment with the template of a previous version.
func Restore(d *appsv1ac.DeploymentApplyConfiguration, v Version, template *corev1ac.PodTemplateSpecApplyConfiguration) *appsv1ac.DeploymentApplyConfiguration {
	restored, meta, spec := *d, *d.ObjectMetaApplyConfiguration, *d.Spec
	meta.Labels, meta.Annotations = maps.Clone(d.Labels), maps.Clone(d.Annotations)
	meta.Labels[SpecHashLabel] = v.Spec
	delete(meta.Labels, ClassLabel)
	if v.Class != "" {
		meta.Labels[ClassLabel] = v.Class
	}
	spec.Template, spec.MinReadySeconds = template, nil
	restored.ObjectMetaApplyConfiguration, restored.Spec = &meta, &spec
	return &restored
}

// Reject records in a Deployment that another version was rolled back.
func Reject(d *appsv1ac.DeploymentApplyConfiguration, rejected RejectedVersion) {
	d.WithAnnotations(map[string]string{verificationAnnotation: encode(Verification{Rejected: &rejected})})
}

func encode(v Verification) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // strings only
	}
	return string(text)
}
