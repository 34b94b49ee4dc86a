package observe

import (
	"context"
	"encoding/json"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/desired"
)

// recordedTemplate returns the RecordedTemplate of a Snapshot. It reads the record from the API
// server only if other clients have changed the template.
func (o *Observer) recordedTemplate(ctx context.Context, fn *v1beta1.Function, s *Snapshot) (*corev1ac.PodTemplateSpecApplyConfiguration, error) {
	if desired.IsIntact(s.OwnedFields) {
		return nil, nil
	}
	i := desired.FindRecord(s.OwnedFields, s.Records)
	if i < 0 {
		return nil, nil
	}
	return o.templateIn(ctx, fn, s.Records[i].Name)
}

// templateIn returns the pod template in a record, which it reads from the API server; nil if the
// record is missing, is not controlled by the Function, or has no intact template.
func (o *Observer) templateIn(ctx context.Context, fn *v1beta1.Function, name string) (*corev1ac.PodTemplateSpecApplyConfiguration, error) {
	var record appsv1.ControllerRevision
	err := o.Live.Get(ctx, client.ObjectKey{Namespace: fn.Namespace, Name: name}, &record)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading ControllerRevision %q: %w", name, err)
	}
	var data desired.RecordData
	found := err == nil && metav1.IsControlledBy(&record, fn)
	if found && json.Unmarshal(record.Data.Raw, &data) == nil && desired.IsIntactTemplate(data.Template) {
		return data.Template, nil
	}
	return nil, nil
}
