package plan_test

import (
	"fmt"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/buildclient"
	"goless.io/operator/internal/desired"
)

// record adds the record of the Deployment, with a number.
func (s *scene) record(number int64) *scene {
	s.recordOf(number, "spec of the Deployment", desired.TemplateOf(&s.seen.Deployment.Spec.Template), desired.LatestRevision(s.fn))
	s.seen.Records[0].Name = desired.RecordNameOf(s.seen.Deployment)
	return s
}

// recordOf adds a record with a name that is derived from its number.
func (s *scene) recordOf(number int64, spec, template, source string) {
	record := appsv1.ControllerRevision{Revision: number}
	s.own(&record, fmt.Sprintf("f-record%d", number))
	record.Labels = map[string]string{"goless.io/recorded-spec": spec, desired.TemplateLabel: template, desired.RevisionLabel: source}
	s.seen.Records = append([]appsv1.ControllerRevision{record}, s.seen.Records...)
}

// The version in the Deployment has a record with the highest number.
func TestRecord(t *testing.T) {
	for name, test := range map[string]struct {
		scene    *scene
		created  int64 // number of the new record
		numbered int64 // new number of the existing record
		latest   bool
	}{
		"First":     {scene: begin(t, inPod, first), created: 1, latest: true},
		"Recorded":  {scene: begin(t, inPod, first).serving(nil, 1).record(4), latest: true},
		"Scaled":    {scene: begin(t, inPod, first).serving(nil, 1).record(4).with(func(fn *v1beta1.Function) { fn.Spec.Replicas = new(int32(3)) }), latest: true},
		"Upgrade":   {scene: begin(t, inPod, first).serving(nil, 1), created: 1, latest: true},
		"Changed":   {scene: begin(t, inPod, first).serving(nil, 1).record(4).change(second), created: 5, latest: true},
		"Returned":  {scene: returned(t, 5), numbered: 6, latest: true},
		"Twice":     {scene: returned(t, 4), numbered: 5, latest: true}, // two have the same number
		"Refused":   {scene: begin(t, inPod, first).serving(nil, 1).record(4).change(refused)},
		"Unbuilt":   {scene: begin(t, shared, first).serving(binary, 1).record(4).change(second)},
		"Awaits":    {scene: begin(t, shared, first).answer(buildclient.Answer{Expected: binary})},
		"NoService": {scene: begin(t, shared, first)},
		"Foreign":   {scene: foreign(t)},
	} {
		t.Run(name, func(t *testing.T) {
			p := test.scene.plan()
			created := int64(0)
			if p.Record != nil {
				created = *p.Record.Revision
				if want := desired.RecordName(p.Deployment); *p.Record.Name != want {
					t.Errorf("the record is %s, and the Deployment has %s", *p.Record.Name, want)
				}
			}
			if p.IsLatest != test.latest {
				t.Errorf("is the latest spec: %t", p.IsLatest)
			}
			if created != test.created || p.RecordNumber != test.numbered {
				t.Errorf("creates number %d, renumbers to %d; want %d and %d", created, p.RecordNumber, test.created, test.numbered)
			}
		})
	}
}

// returned is a scene in which the Function has the source of record 4 again, and another record has
// a number.
func returned(t *testing.T, number int64) *scene {
	s := begin(t, inPod, first).serving(nil, 1).record(4)
	s.recordOf(number, "other", "other", "other")
	return s
}

// foreign is a scene in which the Deployment belongs to another owner.
func foreign(t *testing.T) *scene {
	s := begin(t, inPod, first)
	s.seen.Deployment.UID = "foreign"
	return s
}

// Of the records that no pod and no Deployment needs, the newest of each spec is kept, up to the
// history limit.
func TestUnneededRecords(t *testing.T) {
	for limit, want := range [][]string{
		{"f-record1", "f-record2", "f-record3", "f-record5", "f-record6", "f-record8"},
		{"f-record1", "f-record2", "f-record3", "f-record5", "f-record6"},
		{"f-record1", "f-record2", "f-record3", "f-record5"},
		{"f-record1", "f-record2", "f-record3"},
		{"f-record1", "f-record2"},
		{"f-record2"},
	} {
		s := begin(t, inPod, first).serving(nil, 1).record(9)
		s.recordOf(1, "a", "1", "a")
		s.recordOf(2, "b", "2", "b") // replaced by record 5 with the same spec
		s.recordOf(3, "c", "3", "c")
		s.recordOf(5, "b", "5", "b")
		s.recordOf(6, "d", "6", "d") // pods with its template still run
		set := appsv1.ReplicaSet{Status: appsv1.ReplicaSetStatus{Replicas: 1}}
		set.Labels = map[string]string{desired.TemplateLabel: "6", desired.RevisionLabel: "d"}
		s.seen.ReplicaSets = append(s.seen.ReplicaSets, set)
		s.recordOf(7, "e", "6", "d") // the newest one with their template
		s.recordOf(8, "f", desired.TemplateOf(&s.seen.Deployment.Spec.Template), "f")
		s.with(func(fn *v1beta1.Function) { fn.Spec.RevisionHistoryLimit = new(int32(limit)) })
		got := deleted(s.plan())
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("limit %d: deletes %v, want %v", limit, got, want)
		}
	}
}

// While the latest spec is not in the Deployment, records with higher numbers are left alone: one may
// be that of the latest spec, which was recorded before the operator restarted.
func TestRecordsWhileUnbuilt(t *testing.T) {
	s := begin(t, shared, first).serving(binary, 1).record(4).change(second)
	s.recordOf(5, "other", "other", "other")
	s.with(func(fn *v1beta1.Function) { fn.Spec.RevisionHistoryLimit = new(int32(0)) })
	if p := s.plan(); p.Record != nil || p.RecordNumber != 0 || len(deleted(p)) > 0 {
		t.Errorf("creates %v, renumbers to %d, deletes %v", p.Record, p.RecordNumber, deleted(p))
	}
}

// While other clients have changed the template of the Deployment, its version is the recorded one.
func TestRecordedTemplate(t *testing.T) {
	s := begin(t, shared, first).serving(binary, 1).record(1)
	recorded := s.seen.OwnedFields.Spec.Template
	s.seen.OwnedFields = desired.Deployment(s.fn, s.settings, "", binary)
	s.seen.OwnedFields.Spec.Template.Spec.Containers[0].Image = nil
	s.seen.RecordedTemplate = recorded
	s.settings.Images.Function = "launcher:2"
	for name, source := range map[string]string{"Unchanged": first, "Unbuilt": second, "Refused": refused} {
		t.Run(name, func(t *testing.T) {
			changed := *s
			changed.T, changed.fn = t, s.fn.DeepCopy()
			p := changed.change(source).plan()
			if image := *p.Deployment.Spec.Template.Spec.Containers[0].Image; image != "launcher:1" {
				t.Errorf("the image is %s", image)
			}
		})
	}
	s.seen.RecordedTemplate = nil // without a record, the template is rendered for the spec
	p := s.plan()
	if image := *p.Deployment.Spec.Template.Spec.Containers[0].Image; image != "launcher:2" {
		t.Errorf("without a record, the image is %s", image)
	}
	if s.change(second).plan().Deployment != nil {
		t.Error("without a record and a built source, there is a Deployment")
	}
}
