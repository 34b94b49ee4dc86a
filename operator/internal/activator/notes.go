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
	"goless.io/operator/internal/activator/rule"
	"goless.io/operator/internal/activator/target"
)

// maxNote is the longest value of an annotation, in bytes.
const maxNote = 1024

// notes returns the annotations of the slices of a route: why a wake has failed, until a pod is ready, and
// why the pods cannot be asked how busy they are.
func (r *Reconciler) notes(rt *route, o rule.Observation) map[string]string {
	notes := map[string]string{}
	for i := range rt.slices {
		if why := rt.slices[i].Annotations[v1beta1.WakeFailedAnnotation]; why != "" && len(o.Ready) == 0 {
			notes[v1beta1.WakeFailedAnnotation] = why
		}
	}
	if len(o.Ready) > 0 {
		notes[v1beta1.StaysAwakeAnnotation] = r.polls.Trouble(rt.Service)
	}
	return notes
}

// ReportFailedWake writes into one slice of a function why it could not be woken. Any replica does that. The
// one that leads copies it to the slice of the other address family, and removes it when a pod is ready.
func (r *Reconciler) ReportFailedWake(ctx context.Context, t target.Target, cause error) error {
	found, err := r.slicesOf(ctx, t.Service)
	found = slices.DeleteFunc(found, func(s discoveryv1.EndpointSlice) bool { return !rule.BelongsTo(&s, t) })
	if err != nil || len(found) == 0 {
		return err
	}
	why := cause.Error()
	if len(why) > maxNote {
		why = strings.ToValidUTF8(why[:maxNote], "")
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
