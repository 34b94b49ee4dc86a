package apply

import (
	"context"
	"encoding/json"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/internal/desired"
)

// scale sets the number of replicas of the Function's own Deployment, as another field manager
// than the one that applies it. The error is a conflict if the Deployment has changed since it
// was seen: somebody else may have scaled it.
func (a *Applier) scale(ctx context.Context, live *appsv1.Deployment, replicas *int32) error {
	if replicas == nil {
		return nil
	}
	body, err := json.Marshal(map[string]any{
		"apiVersion": autoscalingv1.SchemeGroupVersion.String(),
		"kind":       "Scale",
		"metadata":   map[string]any{"name": live.Name, "namespace": live.Namespace, "resourceVersion": live.ResourceVersion},
		"spec":       map[string]any{"replicas": *replicas},
	})
	if err != nil {
		return err
	}
	err = a.Client.SubResource("scale").Patch(ctx, live, client.RawPatch(types.ApplyYAMLPatchType, body),
		client.WithSubResourceBody(&autoscalingv1.Scale{}), client.FieldOwner(desired.ReplicasOwner), client.ForceOwnership, client.DisableReadYourWritesConsistency)
	if err != nil {
		return fmt.Errorf("scaling Deployment %q to %d replicas: %w", live.Name, *replicas, err)
	}
	return nil
}
