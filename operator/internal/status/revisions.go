package status

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/desired"
)

// failures are the reasons of Ready that a version causes, unlike those of a later spec and of the
// cluster.
var failures = []string{
	v1beta1.ReasonCompileFailed, v1beta1.ReasonBuildTimeout, v1beta1.ReasonBuildOutOfMemory,
	v1beta1.ReasonCrashLooping, v1beta1.ReasonProgressDeadlineExceeded,
}

// revisions returns the name of the record of the latest spec, and the states of the newest versions,
// given the condition Ready.
func (v *view) revisions(ready metav1.Condition) (latest string, all []v1beta1.RevisionStatus) {
	current := v.currentRecord()
	for i := range v.seen.Outcome.Records {
		record := &v.seen.Outcome.Records[i]
		if record == current && v.seen.Plan.IsLatest {
			latest = record.Name
		}
		if i < v1beta1.MaxRevisionsInStatus {
			all = append(all, v.revisionStatus(record, current, ready))
		}
	}
	return latest, all
}

// currentRecord returns the record of the version in the planned Deployment or, without a plan, in the
// current one; nil if there is none.
func (v *view) currentRecord() *appsv1.ControllerRevision {
	name := v.seen.Plan.RecordName
	if d := v.seen.Outcome.Deployment; name == "" && d != nil {
		name = desired.RecordNameOf(d)
	}
	i := slices.IndexFunc(v.seen.Outcome.Records, func(r appsv1.ControllerRevision) bool { return r.Name == name })
	if i < 0 {
		return nil
	}
	return &v.seen.Outcome.Records[i]
}

// revisionStatus returns the state of one version. Whether it has served or failed is known only while
// it is in the Deployment, so that is carried over from the current status.
func (v *view) revisionStatus(record, current *appsv1.ControllerRevision, ready metav1.Condition) v1beta1.RevisionStatus {
	now := v1beta1.RevisionStatus{
		Name: record.Name, Revision: record.Revision, Source: desired.RevisionOf(record), CreationTime: record.CreationTimestamp,
	}
	last := v.lastRevision(record)
	isLatest := record == current && v.latestDeployment() != nil
	switch {
	case v.latestRolledBack() && record.Name == v.seen.Plan.Verification.RejectedRecord:
		now.State, now.Reason = v1beta1.RevisionRolledBack, v1beta1.ReasonRolledBack
	case v.hasReadyPods(record, current), isLatest && ready.Status == metav1.ConditionTrue && !v.fn.Stopped(),
		record == current && last.State == v1beta1.RevisionServing: // Ready reports an outage
		now.State = v1beta1.RevisionServing
	case isLatest && slices.Contains(failures, ready.Reason):
		now.State, now.Reason = v1beta1.RevisionFailed, ready.Reason
	case last.State == v1beta1.RevisionFailed, last.State == v1beta1.RevisionRolledBack && record != current:
		now.State, now.Reason = last.State, last.Reason
	case record == current:
		now.State = v1beta1.RevisionStarting
	case last.State == v1beta1.RevisionStarting, last.State == v1beta1.RevisionSkipped:
		now.State = v1beta1.RevisionSkipped
	default:
		now.State = v1beta1.RevisionSuperseded
	}
	return now
}

// lastRevision returns the state of a version in the current status; an empty one if it has none, or
// if the Function has returned to the version since.
func (v *view) lastRevision(record *appsv1.ControllerRevision) v1beta1.RevisionStatus {
	i := slices.IndexFunc(v.fn.Status.Revisions, func(r v1beta1.RevisionStatus) bool {
		return r.Name == record.Name && r.Revision == record.Revision
	})
	if i < 0 {
		return v1beta1.RevisionStatus{}
	}
	return v.fn.Status.Revisions[i]
}

// hasReadyPods reports whether pods of a version are ready. Several versions may have the same
// template, in which case its pods belong to the current one.
func (v *view) hasReadyPods(record, current *appsv1.ControllerRevision) bool {
	template := desired.TemplateOf(record)
	if current != nil && record != current && template == desired.TemplateOf(current) {
		return false
	}
	return slices.ContainsFunc(v.seen.Snapshot.ReplicaSets, func(set appsv1.ReplicaSet) bool {
		return set.Status.ReadyReplicas > 0 && desired.TemplateOf(&set) == template
	})
}
