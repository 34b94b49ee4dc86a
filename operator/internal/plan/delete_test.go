package plan

import (
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"goless.io/builder/handler"
	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/desired"
	"goless.io/operator/internal/observe"
)

// Of the sources that are not in use, the newest are kept; sources of the same age are ordered by
// name. The latest valid source is kept while the latest source is invalid.
func TestUnneeded(t *testing.T) {
	var fn v1beta1.Function
	fn.Name = "f"
	fn.Spec.Function, fn.Status.LatestRevision = "latest", "valid"
	var deployed appsv1.Deployment
	deployed.Spec.Template.Labels = map[string]string{desired.RevisionLabel: "deployed"}
	var sources []corev1.ConfigMap
	for revision, age := range map[string]time.Duration{
		"old": 5, "b": 3, "a": 3, "new": 1,
		desired.Revision("latest"): 0, "valid": 9, "deployed": 9, "running": 9,
	} {
		sources = append(sources, corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			Name: desired.ConfigMapName(&fn, revision), Labels: map[string]string{desired.RevisionLabel: revision},
			CreationTimestamp: metav1.NewTime(time.Unix(1e9, 0).Add(-age * time.Second)),
		}})
	}
	for limit, want := range [][]string{{"f-new", "f-a", "f-b", "f-old"}, {"f-a", "f-b", "f-old"}, {"f-b", "f-old"}, {"f-old"}, nil, nil} {
		fn.Spec.RevisionHistoryLimit = new(int32(limit))
		var got []string
		p := planner{Plan: &Plan{}, seen: &observe.Snapshot{Deployment: &deployed, Sources: sources, RevisionsInUse: map[string]bool{"running": true}}}
		p.seen.Verdict.Source = &handler.Error{}
		for _, source := range p.unneededSources(&fn, nil) {
			got = append(got, source.Name)
		}
		if !slices.Equal(got, want) {
			t.Errorf("limit %d: deletes %v, want %v", limit, got, want)
		}
		p.seen.Verdict.Source = nil
		all := p.unneededSources(&fn, nil)
		if limit < 5 && (len(all) != len(want)+1 || all[len(all)-1].Name != "f-valid") {
			t.Errorf("limit %d with a valid latest source: deletes %v", limit, all)
		}
	}
}

// The sources of former versions that are kept count towards the limit, whatever their age.
func TestSourcesOfRecordsAreKept(t *testing.T) {
	var fn v1beta1.Function
	fn.Name, fn.Spec.Function, fn.Spec.RevisionHistoryLimit = "f", "latest", new(int32(2))
	var sources []corev1.ConfigMap
	for revision, age := range map[string]time.Duration{"recorded": 9, "newer": 1, "new": 2, "old": 3} {
		sources = append(sources, corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			Name: desired.ConfigMapName(&fn, revision), Labels: map[string]string{desired.RevisionLabel: revision},
			CreationTimestamp: metav1.NewTime(time.Unix(1e9, 0).Add(-age * time.Second)),
		}})
	}
	record := appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{desired.RevisionLabel: "recorded"}}}
	p := planner{Plan: &Plan{}, seen: &observe.Snapshot{Deployment: &appsv1.Deployment{}, Sources: sources}}
	var got []string
	for _, source := range p.unneededSources(&fn, []appsv1.ControllerRevision{record}) {
		got = append(got, source.Name)
	}
	if want := []string{"f-new", "f-old"}; !slices.Equal(got, want) {
		t.Errorf("deletes %v, want %v", got, want)
	}
}
