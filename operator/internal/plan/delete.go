package plan

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/desired"
)

// deletions plans the objects to delete: Services of a former spec.service once the new one exists,
// sources of former revisions, and a PodDisruptionBudget that is no longer needed.
func (p *planner) deletions(fn *v1beta1.Function) {
	if metav1.IsControlledBy(p.seen.Service, fn) {
		for _, service := range p.seen.Services {
			if service.Name != fn.ServiceName() {
				p.Delete = append(p.Delete, &service)
			}
		}
	}
	for _, source := range p.unneeded(fn) {
		p.Delete = append(p.Delete, &source)
	}
	if !desired.NeedsBudget(fn, p.settings) {
		p.deleteOwn(fn, p.seen.Budget)
	}
}

func (p *planner) deleteOwn(fn *v1beta1.Function, obj client.Object) {
	if metav1.IsControlledBy(obj, fn) {
		p.Delete = append(p.Delete, obj)
	}
}

// unneeded returns the ConfigMaps of sources that no pod can start from, except for the newest
// ones, which are kept for inspection. Pods can start from the latest source or, if that is
// invalid, the latest valid one, from the sources of the current and the planned Deployment, and
// from those of existing pods and ReplicaSets.
func (p *planner) unneeded(fn *v1beta1.Function) []corev1.ConfigMap {
	starts := []string{desired.LatestRevision(fn), desired.RevisionOf(&p.seen.Deployment.Spec.Template), desired.RevisionIn(p.Deployment)}
	if p.seen.Verdict.Source != nil {
		starts = append(starts, fn.Status.LatestRevision)
	}
	former := slices.DeleteFunc(slices.Clone(p.seen.Sources), func(source corev1.ConfigMap) bool {
		revision := desired.RevisionOf(&source)
		return p.seen.RevisionsInUse[revision] || slices.Contains(starts, revision)
	})
	slices.SortFunc(former, func(a, b corev1.ConfigMap) int {
		return cmp.Or(b.CreationTimestamp.Compare(a.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	return former[min(len(former), fn.HistoryLimit()):]
}
