package plan

import (
	"cmp"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/desired"
)

// deletions plans to delete what is no longer needed: Services of a former spec.service once the new one exists,
// records and sources of former versions, a PodDisruptionBudget that is no longer needed, and Jobs
// and NetworkPolicies of tests.
func (p *planner) deletions(fn *v1beta1.Function) {
	if metav1.IsControlledBy(p.seen.Service, fn) {
		for _, service := range p.seen.Services {
			if service.Name != fn.ServiceName() {
				p.Delete = append(p.Delete, &service)
			}
		}
	}
	former, unneeded := p.unneededRecords(fn)
	for _, record := range unneeded {
		p.Delete = append(p.Delete, &record)
	}
	for _, source := range p.unneededSources(fn, former) {
		p.Delete = append(p.Delete, &source)
	}
	if !desired.NeedsBudget(fn, p.settings) {
		p.deleteOwn(fn, p.seen.Budget)
	}
	p.deleteTests(fn)
}

func (p *planner) deleteOwn(fn *v1beta1.Function, obj client.Object) {
	if metav1.IsControlledBy(obj, fn) {
		p.Delete = append(p.Delete, obj)
	}
}

// unneededSources returns the ConfigMaps of sources to delete. It keeps those that records of former
// versions refer to, and those that pods can start from. If the former are fewer than the Function asks
// for, it also keeps the newest others, such as those from before there were records. Pods can start
// from the latest source or, if that is invalid, the latest valid one, from the sources of the
// current and the planned Deployment, and from those of existing pods and ReplicaSets.
func (p *planner) unneededSources(fn *v1beta1.Function, formerRecords []appsv1.ControllerRevision) []corev1.ConfigMap {
	starts := []string{desired.LatestRevision(fn), desired.RevisionOf(&p.seen.Deployment.Spec.Template), desired.RevisionIn(p.Deployment)}
	if p.seen.Verdict.Source != nil {
		starts = append(starts, fn.Status.LatestRevision)
	}
	previous := desired.VerificationIn(p.Deployment).Previous // which may be restored
	for _, record := range p.seen.Records {
		if previous != nil && record.Name == previous.Record {
			starts = append(starts, desired.RevisionOf(&record))
		}
	}
	recorded := map[string]bool{}
	for _, record := range formerRecords {
		recorded[desired.RevisionOf(&record)] = true
	}
	kept := 0
	former := slices.DeleteFunc(slices.Clone(p.seen.Sources), func(source corev1.ConfigMap) bool {
		revision := desired.RevisionOf(&source)
		if p.seen.RevisionsInUse[revision] || slices.Contains(starts, revision) {
			return true
		}
		if recorded[revision] {
			kept++
		}
		return recorded[revision]
	})
	slices.SortFunc(former, func(a, b corev1.ConfigMap) int {
		return cmp.Or(b.CreationTimestamp.Compare(a.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	return former[min(len(former), max(0, fn.HistoryLimit()-kept)):]
}
