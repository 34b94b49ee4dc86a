package apply

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/desired"
	"goless.io/operator/internal/observe"
	"goless.io/operator/internal/plan"
)

// record creates the ControllerRevision of a plan, or gives the existing one its new number. A
// ControllerRevision of a deleted Function of the same name is deleted by the garbage collector,
// which triggers another reconcile.
func (a *Applier) record(ctx context.Context, fn *v1beta1.Function, seen *observe.Snapshot, p *plan.Plan, outcome *Outcome) error {
	outcome.Records = slices.DeleteFunc(slices.Clone(seen.Records), func(r appsv1.ControllerRevision) bool {
		return slices.ContainsFunc(p.Delete, func(object client.Object) bool { return object.GetUID() == r.UID })
	})
	switch {
	case p.Record != nil:
		return a.createRecord(ctx, fn, p, outcome)
	case p.RecordNumber > 0:
		return a.numberRecord(ctx, p, outcome)
	}
	return nil
}

func (a *Applier) createRecord(ctx context.Context, fn *v1beta1.Function, p *plan.Plan, outcome *Outcome) error {
	switch {
	case p.RecordOfSpec != "":
		if err := a.copySpec(ctx, fn, p); err != nil {
			return err
		}
	case p.RecordData.Spec != nil:
		spec, err := a.authoredSpec(ctx, fn)
		if err != nil {
			return err
		}
		p.RecordData.Spec = desired.VersionedFields(spec)
	}
	desired.SetData(p.Record, p.RecordData)
	object, created, err := a.createOrFind(ctx, p.Record, &appsv1.ControllerRevision{})
	record := object.(*appsv1.ControllerRevision)
	switch {
	case err != nil, !created && ownedByDeletedNamesake(record, fn):
		return err
	case !created && !metav1.IsControlledBy(record, fn):
		taken := &notOwnedError{kind: *p.Record.GetKind(), namespace: fn.Namespace, name: *p.Record.Name, owner: ownerOf(record)}
		return errors.New(taken.Error()) // as text, because the function does not need the record
	case !created: // not in the cache yet, or without its labels
		err = a.patchRecord(ctx, record, p.Record.Labels, *p.Record.Revision)
	}
	if err == nil {
		outcome.Records = append(outcome.Records, *record)
		desired.SortRecords(outcome.Records)
	}
	return err
}

// copySpec sets the spec in the data of a planned record, and the metadata that belongs to it, to those
// in the record that the plan names.
func (a *Applier) copySpec(ctx context.Context, fn *v1beta1.Function, p *plan.Plan) error {
	var record appsv1.ControllerRevision
	if err := a.Live.Get(ctx, client.ObjectKey{Namespace: fn.Namespace, Name: p.RecordOfSpec}, &record); err != nil {
		return fmt.Errorf("reading ControllerRevision %q: %w", p.RecordOfSpec, err)
	}
	var data desired.RecordData
	if err := json.Unmarshal(record.Data.Raw, &data); err != nil {
		return fmt.Errorf("decoding ControllerRevision %q: %w", p.RecordOfSpec, err)
	}
	p.RecordData.Spec, p.RecordData.Labels, p.RecordData.Annotations = data.Spec, data.Labels, data.Annotations
	return nil
}

// authoredSpec returns the spec of a Function as its author wrote it: for example, with a timeout of
// 60s, which the operator would write as 1m0s. A rollback writes the same spec again. The error is a
// conflict if the spec has changed in the meantime.
func (a *Applier) authoredSpec(ctx context.Context, fn *v1beta1.Function) (map[string]any, error) {
	var now unstructured.Unstructured
	now.SetGroupVersionKind(v1beta1.GroupVersion.WithKind("Function"))
	if err := a.Live.Get(ctx, client.ObjectKeyFromObject(fn), &now); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading the spec: %w", err)
	}
	spec, ok := now.Object["spec"].(map[string]any)
	if !ok || now.GetUID() != fn.UID || now.GetGeneration() != fn.Generation {
		return nil, apierrors.NewConflict(v1beta1.GroupVersion.WithResource("functions").GroupResource(), fn.Name, errors.New("the spec has changed"))
	}
	return spec, nil
}

func (a *Applier) numberRecord(ctx context.Context, p *plan.Plan, outcome *Outcome) error {
	i := slices.IndexFunc(outcome.Records, func(r appsv1.ControllerRevision) bool { return r.Name == p.RecordName })
	if err := a.patchRecord(ctx, &outcome.Records[i], nil, p.RecordNumber); err != nil {
		return err
	}
	desired.SortRecords(outcome.Records)
	return nil
}

// patchRecord sets the number of a record, and its labels unless they are nil. The error is a conflict if the record is
// another one than the one that was read.
func (a *Applier) patchRecord(ctx context.Context, record *appsv1.ControllerRevision, labels map[string]string, number int64) error {
	metadata := map[string]any{"uid": record.UID}
	if labels != nil {
		metadata["labels"] = labels
	}
	patch, err := json.Marshal(map[string]any{"metadata": metadata, "revision": number})
	if err != nil {
		return err
	}
	if err := a.Client.Patch(ctx, record, client.RawPatch(types.MergePatchType, patch), client.DisableReadYourWritesConsistency); err != nil {
		return fmt.Errorf("numbering ControllerRevision %q: %w", record.Name, err)
	}
	return nil
}
