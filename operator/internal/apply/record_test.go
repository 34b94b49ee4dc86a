package apply_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/apply"
	"goless.io/operator/internal/buildclient"
	"goless.io/operator/internal/desired"
	"goless.io/operator/internal/metrics"
	"goless.io/operator/internal/observe"
	"goless.io/operator/internal/plan"
	"goless.io/operator/internal/settings"
)

// archive is an API server with a Function of some generation and, unless it is nil, a record. It
// lists the writes.
type archive struct {
	client.Client
	generation int64
	record     *appsv1.ControllerRevision
	before     *desired.RecordData // of an earlier record
	writes     []string
}

func (a *archive) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	switch into := into.(type) {
	case *unstructured.Unstructured:
		into.Object = map[string]any{"spec": map[string]any{"function": "package p", "replicas": int64(3), "timeout": "60s"}}
		into.SetUID("uid")
		into.SetGeneration(a.generation)
	case *appsv1.ControllerRevision:
		if key.Name == "before" {
			into.Data.Raw, _ = json.Marshal(a.before)
			return nil
		}
		a.record.DeepCopyInto(into)
	}
	return nil
}

func (a *archive) Patch(_ context.Context, object client.Object, patch client.Patch, _ ...client.PatchOption) error {
	text, err := patch.Data(object)
	if err != nil {
		return err
	}
	record, ok := object.(*appsv1.ControllerRevision)
	if !ok {
		a.writes = append(a.writes, "deployment")
		return nil
	}
	if a.record != nil && patch.Type() != types.MergePatchType {
		return apierrors.NewConflict(schema.GroupResource{Resource: "controllerrevisions"}, object.GetName(), errors.New("it exists"))
	}
	if err := json.Unmarshal(text, record); err != nil {
		return err
	}
	if a.record != nil {
		a.writes = append(a.writes, fmt.Sprintf("change %s %d", record.Labels[desired.FunctionLabel], record.Revision))
		return nil
	}
	var data desired.RecordData
	err = json.Unmarshal(record.Data.Raw, &data)
	a.writes = append(a.writes, fmt.Sprint("create ", data.Spec["timeout"]))
	return err
}

// A version is recorded, as its author wrote it, before it is applied. What prevents that is
// Degraded, except for a change of the spec in the meantime, after which the Deployment is not
// changed.
func TestRecord(t *testing.T) {
	fn := &v1beta1.Function{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "f", UID: "uid", Generation: 2}}
	fn.Spec.Function = "package p"
	owned := func(uid types.UID) *appsv1.ControllerRevision {
		owner := metav1.NewControllerRef(fn, v1beta1.GroupVersion.WithKind("Function"))
		owner.UID = uid
		return &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{UID: "record", OwnerReferences: []metav1.OwnerReference{*owner}}}
	}
	foreign := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{UID: "foreign"}}
	counted, err := metrics.New(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		generation int64
		record     *appsv1.ControllerRevision
		want       recorded
	}{
		"New":      {2, nil, recorded{Writes: []string{"create 60s", "deployment"}, Records: 1}},
		"Changed":  {3, nil, recorded{Conflict: true}},
		"Uncached": {2, owned("uid"), recorded{Writes: []string{"change f 1", "deployment"}, Records: 1}}, // or without its labels
		"Namesake": {2, owned("deleted"), recorded{Writes: []string{"deployment"}}},
		"Foreign":  {2, foreign, recorded{Writes: []string{"deployment"}, Degraded: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			server := &archive{generation: test.generation, record: test.record}
			applier := &apply.Applier{Client: server, Live: server, Orders: buildclient.New(&buildclient.Service{}), Metrics: counted}
			p := &plan.Plan{Deployment: desired.Deployment(fn, settings.Settings{}, "", &desired.Binary{Service: "s", Key: "key", Capability: "c", PublicKey: "p"})}
			p.Record, p.RecordData = desired.Record(fn, settings.Settings{}, p.Deployment, 1)
			got := applier.Apply(t.Context(), fn, &observe.Snapshot{Deployment: &appsv1.Deployment{}, Service: &corev1.Service{}}, p)
			result := recorded{server.writes, len(got.Records), apierrors.IsConflict(got.Err), len(got.Degraded)}
			if diff := cmp.Diff(test.want, result); diff != "" || got.Problem != nil {
				t.Errorf("problem %v, result (-want +got):\n%s", got.Problem, diff)
			}
		})
	}
}

// The record of a repaired template has the spec of the record before, and not that of the Function.
func TestRecordOfRepairedTemplate(t *testing.T) {
	fn := &v1beta1.Function{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "f", UID: "uid"}}
	server := &archive{before: &desired.RecordData{Spec: map[string]any{"timeout": "30s"}}}
	counted, err := metrics.New(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	applier := &apply.Applier{Client: server, Live: server, Orders: buildclient.New(&buildclient.Service{}), Metrics: counted}
	p := &plan.Plan{Deployment: desired.Deployment(fn, settings.Settings{}, "", nil), RecordOfSpec: "before"}
	p.Record, p.RecordData = desired.Record(fn, settings.Settings{}, p.Deployment, 2)
	applier.Apply(t.Context(), fn, &observe.Snapshot{Deployment: &appsv1.Deployment{}, Service: &corev1.Service{}}, p)
	if want := []string{"create 30s", "deployment"}; !slices.Equal(server.writes, want) {
		t.Errorf("the writes are %v, want %v", server.writes, want)
	}
}

// recorded is the result of applying a plan with a record: the writes, the number of records, and
// the problems.
type recorded struct {
	Writes   []string
	Records  int
	Conflict bool
	Degraded int
}
