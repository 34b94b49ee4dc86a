package activator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/activator/backend"
	"goless.io/operator/internal/activator/routing"
	"goless.io/operator/internal/verification"
)

// maxAnnotation is the maximum length of an annotation value, in bytes.
const maxAnnotation = 1024

// annotations returns the annotations for the EndpointSlices of a route:
//
//   - WakeFailedAnnotation: why the last wake-up failed, until a pod is ready
//   - StaysAwakeAnnotation: why the activity of the pods is unknown, which keeps the function awake
//   - CannotScaleAnnotation: why the function cannot be scaled by its requests in flight
//   - VerifyReportAnnotation: the requests that were counted to verify a rollout
func (r *Reconciler) annotations(rt *route, o routing.Observation) map[string]string {
	annotations := map[string]string{v1beta1.CannotScaleAnnotation: r.scalingProblem(rt), v1beta1.VerifyReportAnnotation: r.verified(rt)}
	for i := range rt.slices {
		why := rt.slices[i].Annotations[v1beta1.WakeFailedAnnotation]
		if why != "" && len(o.Ready) == 0 && routing.BelongsTo(&rt.slices[i], rt.Backend) {
			annotations[v1beta1.WakeFailedAnnotation] = why
		}
	}
	if len(o.Ready) > 0 {
		annotations[v1beta1.StaysAwakeAnnotation] = r.poller.LastError(rt.Service)
	}
	return annotations
}

// scalingProblem returns why the function cannot be scaled by its requests in flight; empty if it
// can. A new leader keeps what the former one has written until it knows better.
func (r *Reconciler) scalingProblem(rt *route) string {
	problem, known := r.scaler.Problem(rt.Service)
	if known || rt.Scaling == nil {
		return problem
	}
	for i := range rt.slices {
		if why := rt.slices[i].Annotations[v1beta1.CannotScaleAnnotation]; why != "" && routing.BelongsTo(&rt.slices[i], rt.Backend) {
			return why
		}
	}
	return ""
}

// verified returns the report about a rollout that is verified; empty if there is none. A new leader
// keeps the report of the former one.
func (r *Reconciler) verified(rt *route) string {
	if rt.Verify == nil {
		return ""
	}
	if report := r.verifier.Report(rt.Service, *rt.Verify); report != nil {
		return report.String()
	}
	for i := range rt.slices {
		text := rt.slices[i].Annotations[v1beta1.VerifyReportAnnotation]
		if report := verification.ParseReport(text); report != nil && report.Template == rt.Verify.Template && routing.BelongsTo(&rt.slices[i], rt.Backend) {
			return text
		}
	}
	return ""
}

// ReportFailedWake writes the cause of a failed wake-up to an annotation of the EndpointSlices of
// the function. Any replica calls it. The leader removes the annotation when a pod is ready.
func (r *Reconciler) ReportFailedWake(ctx context.Context, b backend.Backend, cause error) error {
	found, err := r.slicesOf(ctx, b.Service)
	if err != nil {
		return err
	}
	why := cause.Error()
	if len(why) > maxAnnotation {
		why = strings.ToValidUTF8(why[:maxAnnotation], "")
	}
	var errs []error
	for i := range found {
		s := &found[i]
		if !routing.BelongsTo(s, b) || s.Annotations[v1beta1.WakeFailedAnnotation] == why {
			continue
		}
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
			"uid": s.UID, "annotations": map[string]string{v1beta1.WakeFailedAnnotation: why},
		}})
		if err == nil {
			err = client.IgnoreNotFound(r.client.Patch(ctx, s, client.RawPatch(types.MergePatchType, patch)))
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("annotating EndpointSlice %q: %w", s.Name, err))
		}
	}
	return errors.Join(errs...)
}
