package desired_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"

	"goless.io/operator/internal/desired"
	"goless.io/operator/internal/settings"
)

// A record contains what affects the pods, without the source, and what the operator made of it.
// Other values of Secrets have another record for the same spec.
func TestRecord(t *testing.T) {
	fn := function(everyField)
	fn.Annotations["goless.io/upgrade"] = "2"
	d := desired.Deployment(fn, configured, "values", binary)
	record, data := desired.Record(fn, configured, d, 3)
	desired.SetData(record, data)
	var decoded desired.RecordData
	if err := json.Unmarshal(record.Data.Raw, &decoded); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(d.Spec.Template, decoded.Template); diff != "" {
		t.Errorf("the template differs:\n%s", diff)
	}
	d.Spec.Template = decoded.Template
	if !desired.IsIntact(d) {
		t.Error("the template has another hash after decoding")
	}
	if data.Source != desired.ConfigMapName(fn, desired.LatestRevision(fn)) || data.SHA256 != desired.Summary(fn).SHA256 || data.Binary != binary.Key || *record.Revision != 3 {
		t.Errorf("source %q, SHA-256 %q, binary %q, revision %d", data.Source, data.SHA256, data.Binary, *record.Revision)
	}
	for _, field := range []string{"function", "service", "appProtocol", "replicas", "scaling", "revisionHistoryLimit", "progressDeadlineSeconds"} {
		if value, ok := data.Spec[field]; ok {
			t.Errorf("the record contains %s: %v", field, value)
		}
	}
	for _, field := range []string{"env", "resources", "serverPort", "build"} {
		if _, ok := data.Spec[field]; !ok {
			t.Errorf("the record does not contain %s", field)
		}
	}
	if data.Labels["pod.goless.io/team"] != "blue" || data.Annotations["goless.io/upgrade"] != "2" {
		t.Errorf("labels %v, annotations %v", data.Labels, data.Annotations)
	}
	other, _ := desired.Record(fn, configured, desired.Deployment(fn, configured, "other values", binary), 4)
	if specOf(other) != specOf(record) || *other.Name == *record.Name {
		t.Errorf("with other values the record is %s of spec %s, and was %s of spec %s", *other.Name, specOf(other), *record.Name, specOf(record))
	}
}

func specOf(record *appsv1ac.ControllerRevisionApplyConfiguration) string {
	return desired.RecordedSpec(&appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Labels: record.Labels}})
}

// Each spec and each template has its own record. A record of a template that was rendered for
// another spec than that of the Function does not contain the spec of the Function.
func TestRecordOfAnotherSpec(t *testing.T) {
	fn := function(everyField)
	d := desired.Deployment(fn, configured, "", nil)
	changed := fn.DeepCopy()
	changed.Spec.Build.Timeout = nil
	names := map[string]bool{}
	for _, d := range []*appsv1ac.DeploymentApplyConfiguration{
		d, desired.Deployment(fn, configured, "values", nil),
		desired.Deployment(changed, configured, "", binary), desired.Deployment(fn, configured, "", binary), // with the same template
	} {
		names[desired.RecordName(d)] = true
	}
	if len(names) != 4 {
		t.Errorf("the names are %v", names)
	}
	if _, data := desired.Record(changed, configured, d, 1); data.Spec != nil || data.Template == nil {
		t.Errorf("the record contains the spec %v", data.Spec)
	}
}

// The record of a Deployment is found by what the operator owns, also if another client has replaced
// the hash of the template.
func TestFindRecord(t *testing.T) {
	fn := function(everyField)
	d := desired.Deployment(fn, configured, "", nil)
	var records []appsv1.ControllerRevision
	for number, recorded := range []*appsv1ac.DeploymentApplyConfiguration{
		desired.Deployment(fn, settings.Settings{}, "", nil), d, desired.Deployment(fn, configured, "other", nil),
	} {
		record := appsv1.ControllerRevision{Revision: int64(number)}
		record.Name = desired.RecordName(recorded)
		record.Labels = map[string]string{desired.TemplateLabel: desired.TemplateIn(recorded)}
		records = append(records, record)
	}
	desired.SortRecords(records)
	if got := desired.FindRecord(d, records); got != 1 {
		t.Errorf("the record is number %d", got)
	}
	delete(d.Spec.Template.Labels, desired.TemplateLabel)
	if got := desired.FindRecord(d, records); got != 1 {
		t.Errorf("without the hash of the template, the record is number %d", got)
	}
	delete(d.Labels, desired.SpecHashLabel)
	if got := desired.FindRecord(d, records); got != -1 {
		t.Errorf("without the hash of the spec, the record is number %d", got)
	}
}
