package activator

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/activator/backend"
	"goless.io/operator/internal/activator/rule"
)

// maxAnnotation is the maximum length of an annotation value, in bytes.
const maxAnnotation = 1024

// annotations returns the annotations for the EndpointSlices of a route:
//
//   - WakeFailedAnnotation: why the last wake failed, until a pod is ready
//   - StaysAwakeAnnotation: why the activity of the pods is unknown, which keeps the function awake
func (r *Reconciler) annotations(rt *route, o rule.Observation) map[string]string {
	annotations := map[string]string{}
	for i := range rt.slices {
		if why := rt.slices[i].Annotations[v1beta1.WakeFailedAnnotation]; why != "" && len(o.Ready) == 0 {
			annotations[v1beta1.WakeFailedAnnotation] = why
		}
	}
	if len(o.Ready) > 0 {
		annotations[v1beta1.StaysAwakeAnnotation] = r.poller.LastError(rt.Service)
	}
	return annotations
}

// ReportFailedWake writes the cause of a failed wake to an annotation of one EndpointSlice of the
// function. Any replica calls it. The leader copies the annotation to the slice of the other
// address family, and removes it when a pod is ready.
func (r *Reconciler) ReportFailedWake(ctx context.Context, b backend.Backend, cause error) error {
	found, err := r.slicesOf(ctx, b.Service)
	found = slices.DeleteFunc(found, func(s discoveryv1.EndpointSlice) bool { return !rule.BelongsTo(&s, b) })
	if err != nil || len(found) == 0 {
		return err
	}
	why := cause.Error()
	if len(why) > maxAnnotation {
		why = strings.ToValidUTF8(why[:maxAnnotation], "")
	}
	if found[0].Annotations[v1beta1.WakeFailedAnnotation] == why {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": found[0].UID, "annotations": map[string]string{v1beta1.WakeFailedAnnotation: why},
	}})
	if err != nil {
		return err
	}
	err = r.client.Patch(ctx, &found[0], client.RawPatch(types.MergePatchType, patch))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("annotating EndpointSlice %q: %w", found[0].Name, err)
	}
	return nil
}
