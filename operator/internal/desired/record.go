package desired

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/settings"
)

// RecordData is the data of the ControllerRevision of one revision of a Function. It is immutable.
type RecordData struct {
	// Spec contains the fields of the Function's spec that affect its pods, as its author wrote them,
	// without the source. It is absent if the operator does not know the spec, because a release
	// without ControllerRevisions has applied the Deployment.
	Spec map[string]any `json:"spec,omitempty"`

	// Labels and Annotations are those of the Function that affect its pods.
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`

	// Source is the name of the ConfigMap with the source, which revisions with the same source share,
	// and SHA256 is the hash of the source, in hexadecimal.
	Source string `json:"source"`
	SHA256 string `json:"sha256"`

	// Template is the pod template.
	Template *corev1ac.PodTemplateSpecApplyConfiguration `json:"template"`

	// Binary is the key of the binary in the build service; empty if the pods compile the source.
	Binary string `json:"binary,omitempty"`
}

// RecordName returns the name of the ControllerRevision for a Deployment. The name depends on the
// spec, the referenced values and the pod template.
func RecordName(d *appsv1ac.DeploymentApplyConfiguration) string {
	return recordName(*d.Name, d.Labels[SpecHashLabel], TemplateIn(d))
}

// RecordNameOf is like RecordName, for a Deployment read from the cluster.
func RecordNameOf(d *appsv1.Deployment) string {
	return recordName(d.Name, d.Labels[SpecHashLabel], TemplateOf(&d.Spec.Template))
}

func recordName(function, spec, template string) string {
	return function + "-" + Digest([]string{spec, template})
}

// FindRecord returns the index of the ControllerRevision for a Deployment, given the fields that
// the operator owns; -1 if there is none. The hash of the template may be missing, because another
// client has replaced the template. FindRecord then returns the newest ControllerRevision with the
// spec of the Deployment. records must be sorted by SortRecords.
func FindRecord(owned *appsv1ac.DeploymentApplyConfiguration, records []appsv1.ControllerRevision) int {
	template := TemplateIn(owned)
	if template == "" {
		return RecordOfSpec(owned, records)
	}
	return slices.IndexFunc(records, func(r appsv1.ControllerRevision) bool { return template == TemplateOf(&r) && isOfSpec(owned, &r) })
}

// RecordOfSpec returns the index of the newest ControllerRevision with the spec of a Deployment and
// any template; -1 if there is none.
func RecordOfSpec(d *appsv1ac.DeploymentApplyConfiguration, records []appsv1.ControllerRevision) int {
	return slices.IndexFunc(records, func(r appsv1.ControllerRevision) bool { return isOfSpec(d, &r) })
}

// isOfSpec reports whether a ControllerRevision has the spec of a Deployment.
func isOfSpec(d *appsv1ac.DeploymentApplyConfiguration, record *appsv1.ControllerRevision) bool {
	return record.Name == recordName(*d.Name, d.Labels[SpecHashLabel], TemplateOf(record))
}

// RecordedSpec returns the hash of the Function's spec in the label of a ControllerRevision.
func RecordedSpec(record *appsv1.ControllerRevision) string { return record.Labels[recordedSpecLabel] }

// SetRecordedSpec sets the result of [RecordedSpec] for a new ControllerRevision.
func SetRecordedSpec(record *appsv1ac.ControllerRevisionApplyConfiguration, spec string) {
	record.WithLabels(map[string]string{recordedSpecLabel: spec})
}

// Record returns the ControllerRevision for a Deployment, without data, and its data.
// RecordData.Spec is encoded by the operator; the caller replaces it with the spec as the author
// wrote it. RecordData.Spec is nil if the Deployment was not rendered for the spec of fn. number must
// be greater than those of all earlier revisions.
func Record(fn *v1beta1.Function, s settings.Settings, d *appsv1ac.DeploymentApplyConfiguration, number int64) (*appsv1ac.ControllerRevisionApplyConfiguration, *RecordData) {
	data := &RecordData{Source: ConfigMapName(fn, RevisionIn(d)), SHA256: podTemplate(d).Annotations[sourceAnnotation], Template: podTemplate(d)}
	if binary := BinaryIn(d); binary != nil {
		data.Binary = binary.Key
	}
	spec := d.Labels[SpecHashLabel]
	if metadata := podMetadataFrom(fn, s); specHash(fn, metadata.withValues(d)) == spec {
		spec = specHash(fn, metadata)
		data.Labels, data.Annotations = metadata.labels, Annotations(fn, s)
		data.Spec = VersionedFields(specContent(&fn.Spec))
	}
	record := appsv1ac.ControllerRevision(RecordName(d), fn.Namespace).
		// Without the label app.kubernetes.io/name, by which a StatefulSet could adopt the record.
		WithLabels(Selector(fn.Name)).
		WithLabels(map[string]string{ManagedByLabel: ManagedBy, RevisionLabel: RevisionIn(d), recordedSpecLabel: spec, TemplateLabel: TemplateIn(d)}).
		WithOwnerReferences(owner(fn)).
		WithRevision(number)
	return record, data
}

// SetData sets the data of a ControllerRevision.
func SetData(record *appsv1ac.ControllerRevisionApplyConfiguration, data *RecordData) {
	text, err := json.Marshal(data)
	if err != nil {
		panic(fmt.Errorf("encoding a version of a Function: %w", err)) // types of our own
	}
	record.WithData(runtime.RawExtension{Raw: text})
}

// notVersioned are the fields of a spec that do not affect the pods, and the source, which is
// recorded by its hash. A change of another field creates a new revision.
// builder/internal/revisions has the same list.
var notVersioned = []string{"function", "service", "appProtocol", "replicas", "scaling", "rollout", "revisionHistoryLimit", "progressDeadlineSeconds"}

// notVersionedOfBuild are the fields of spec.build that do not affect the pods.
var notVersionedOfBuild = []string{"test", "testEnv"}

// VersionedFields returns the fields of a spec that a ControllerRevision contains: those that
// affect the pods, without the source.
func VersionedFields(spec map[string]any) map[string]any {
	versioned := maps.Clone(spec)
	for _, name := range notVersioned {
		delete(versioned, name)
	}
	if build, ok := versioned["build"].(map[string]any); ok {
		build = maps.Clone(build)
		for _, name := range notVersionedOfBuild {
			delete(build, name)
		}
		if versioned["build"] = build; len(build) == 0 {
			delete(versioned, "build")
		}
	}
	return versioned
}

// withValues returns the metadata of pods that a Deployment was rendered for.
func (m podMetadata) withValues(d *appsv1ac.DeploymentApplyConfiguration) podMetadata {
	if values, known := ValuesIn(d); known && values != "" {
		m.annotations = maps.Clone(m.annotations)
		m.annotations[ValuesAnnotation] = values
	}
	return m
}

// SortRecords sorts ControllerRevisions by their number, the newest first. Two have the same number
// if the second was created before the cache contained the first.
func SortRecords(records []appsv1.ControllerRevision) {
	slices.SortFunc(records, func(a, b appsv1.ControllerRevision) int {
		return cmp.Or(cmp.Compare(b.Revision, a.Revision), b.CreationTimestamp.Compare(a.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
}
