package function_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/apiservertest"
	"goless.io/operator/internal/desired"
)

// records returns the ControllerRevisions of a Function, the newest first.
func records(t *testing.T, fn *v1beta1.Function) []appsv1.ControllerRevision {
	t.Helper()
	var list appsv1.ControllerRevisionList
	if err := cluster.List(t.Context(), &list, client.InNamespace(fn.Namespace), client.MatchingLabels{desired.FunctionLabel: fn.Name}); err != nil {
		t.Fatal(err)
	}
	desired.SortRecords(list.Items)
	return list.Items
}

// awaitRecords waits until the records have certain numbers, the newest first, and the status lists
// them.
func awaitRecords(t *testing.T, fn *v1beta1.Function, numbers ...int64) []appsv1.ControllerRevision {
	t.Helper()
	var all []appsv1.ControllerRevision
	eventually(t, "records with the expected numbers", func() bool {
		all = records(t, fn)
		listed := get(t, fn).Status.Revisions
		return slices.EqualFunc(all, numbers, func(r appsv1.ControllerRevision, n int64) bool { return r.Revision == n }) &&
			slices.EqualFunc(listed, all, func(s v1beta1.RevisionStatus, r appsv1.ControllerRevision) bool {
				return s.Name == r.Name && s.Revision == r.Revision
			})
	})
	return all
}

// Each version of a Function has a record with a number. A version to which the Function returns
// gets a new number, and its data does not change. A deleted record is written again.
func TestRevisions(t *testing.T) {
	fn := create(t, "versions", func(fn *v1beta1.Function) {
		fn.Spec.Timeout = &metav1.Duration{Duration: time.Minute}
		fn.Annotations = map[string]string{"pod.goless.io/note": "a"}
	})
	raw := client.RawPatch(types.JSONPatchType, []byte(`[{"op":"replace","path":"/spec/timeout","value":"60s"}]`)) // not 1m0s
	if err := cluster.Patch(t.Context(), fn.DeepCopy(), raw); err != nil {
		t.Fatal(err)
	}
	serve(t, fn)
	first := awaitRecords(t, fn, 1)[0]
	if got := get(t, fn).Status.CurrentRevision; got != first.Name {
		t.Errorf("the current revision is %q", got)
	}
	if text := string(first.Data.Raw); !strings.Contains(text, `"timeout":"60s"`) || !strings.Contains(text, `"annotations":{"pod.goless.io/note":"a"}`) {
		t.Errorf("the spec is not recorded as it was written: %s", text)
	}
	if now := get(t, fn).Status.Revisions[0]; now.State != v1beta1.RevisionServing {
		t.Errorf("the first version is %+v", now)
	}
	change(t, fn, func(fn *v1beta1.Function) { fn.Spec.Concurrency = 9 })
	serve(t, fn)
	second := awaitRecords(t, fn, 2, 1)[0]
	change(t, fn, func(fn *v1beta1.Function) { fn.Spec.Replicas = new(int32(3)) }) // is not a version
	change(t, fn, func(fn *v1beta1.Function) { fn.Spec.Concurrency = 0 })
	serve(t, fn)
	all := awaitRecords(t, fn, 3, 2)
	if all[0].UID != first.UID || string(all[0].Data.Raw) != string(first.Data.Raw) {
		t.Errorf("returning to the first version has replaced its record: %s", all[0].Data.Raw)
	}
	remove(t, &all[0])
	eventually(t, "record written again", func() bool {
		all = records(t, fn)
		return len(all) == 2 && all[0].Name == first.Name && string(all[0].Data.Raw) == string(first.Data.Raw)
	})
	change(t, fn, func(fn *v1beta1.Function) { fn.Spec.RevisionHistoryLimit = new(int32(0)) })
	eventually(t, "former version deleted", func() bool {
		all = records(t, fn)
		return len(all) == 1 && all[0].UID != second.UID
	})
}

// If another client changes the pod template, the recorded template is restored, also after an
// upgrade of the operator, whose own template would be another one. The record is read only then.
func TestTamperedTemplate(t *testing.T) {
	fn := create(t, "tampered", func(*v1beta1.Function) {})
	serve(t, fn)
	awaitRecords(t, fn, 1)
	for _, read := range writes.reads() {
		if strings.Contains(read, "/"+fn.Namespace+"/controllerrevisions/") {
			t.Errorf("the record was read: %s", read)
		}
	}
	next := configured
	next.Images.Builder, next.Images.Function = "example/builder:2", "example/launch:2"
	next.Namespaces = []string{fn.Namespace}
	exchangeOperator(t, next, &writeLog{})
	deployment := await(t, fn, fn.Name, &appsv1.Deployment{}, nil)
	patch := client.RawPatch("application/strategic-merge-patch+json",
		[]byte(`{"spec":{"template":{"metadata":{"labels":{"goless.io/template":"theirs"}},"spec":{"securityContext":{"runAsNonRoot":false},"containers":[{"name":"function","terminationMessagePolicy":"File"}]}}}}`))
	if err := cluster.Patch(t.Context(), deployment, patch, client.FieldOwner("kubectl-edit")); err != nil {
		t.Fatal(err)
	}
	now := await(t, fn, fn.Name, &appsv1.Deployment{}, func(d *appsv1.Deployment) bool {
		pod := d.Spec.Template.Spec
		return *pod.SecurityContext.RunAsNonRoot && d.Spec.Template.Labels[desired.TemplateLabel] != "theirs" && pod.Containers[0].TerminationMessagePolicy == corev1.TerminationMessageFallbackToLogsOnError
	})
	if image := now.Spec.Template.Spec.Containers[0].Image; image != configured.Images.Function {
		t.Errorf("the pods have image %s", image)
	}
	if got := records(t, fn); len(got) != 1 {
		t.Errorf("there are %d records", len(got))
	}
}

// An operator that keeps records makes the first one from what runs, and restarts nothing.
func TestRecordsOfAnUpgrade(t *testing.T) {
	namespace := apiservertest.NewNamespace(t, cluster)
	quota := forbid(t, namespace, "count/controllerrevisions.apps")
	fn := create(t, "unrecorded", func(fn *v1beta1.Function) { fn.Namespace = namespace })
	serve(t, fn)
	deployment := await(t, fn, fn.Name, &appsv1.Deployment{}, nil)
	next := configured
	next.Images.Builder, next.Images.Function = "example/builder:2", "example/launch:2"
	next.Namespaces = []string{namespace}
	exchangeOperator(t, next, &writeLog{})
	remove(t, quota)
	record := awaitRecords(t, fn, 1)[0]
	if text := string(record.Data.Raw); !strings.Contains(text, configured.Images.Function) || strings.Contains(text, next.Images.Function) {
		t.Errorf("the record is %s", text)
	}
	if now := await(t, fn, fn.Name, &appsv1.Deployment{}, nil); now.Generation != deployment.Generation {
		t.Errorf("the Deployment was changed: %+v", now.Spec.Template)
	}
}
