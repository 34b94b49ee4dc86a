package faults

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
)

// verified makes the operator wait for the report of the activator before it continues a rollout.
func verified(spec *v1beta1.FunctionSpec) {
	spec.Rollout = &v1beta1.Rollout{Verify: &v1beta1.Verify{For: &metav1.Duration{Duration: time.Hour}}}
}

// verifies waits until the rollout of the latest spec is verified, and reports, as the activator does,
// that its pod has served 100 requests, of which some failed. It removes the report when the operator
// no longer asks for it.
func (tr *trial) verifies(failed int64) {
	tr.t.Helper()
	tr.await(tr.reason(v1beta1.ReasonVerifying))
	ctx, c := tr.t.Context(), world(tr.t).client
	var service corev1.Service
	tr.must(c.Get(ctx, client.ObjectKey{Namespace: tr.ns, Name: subject}, &service))
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: tr.ns, Name: subject + "-activator",
			Labels: map[string]string{
				discoveryv1.LabelServiceName: subject, discoveryv1.LabelManagedBy: "goless-activator", v1beta1.FunctionLabel: subject,
			},
			Annotations:     map[string]string{v1beta1.VerifyReportAnnotation: tr.report(&service, failed)},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Service", Name: subject, UID: service.UID}},
		},
		AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{},
	}
	tr.must(c.Create(ctx, slice))
	tr.await(func() error {
		if err := c.Get(ctx, client.ObjectKeyFromObject(&service), &service); err != nil || service.Annotations[v1beta1.VerifyLimitsAnnotation] != "" {
			return errors.Join(err, errors.New("the operator still verifies"))
		}
		return nil
	})
	tr.must(c.Delete(ctx, slice))
}

// report returns a report of the activator about a pod of the template in the Service.
func (tr *trial) report(service *corev1.Service, failed int64) string {
	tr.t.Helper()
	var limits struct{ Template string }
	tr.must(json.Unmarshal([]byte(service.Annotations[v1beta1.VerifyLimitsAnnotation]), &limits))
	var pods corev1.PodList
	tr.must(world(tr.t).client.List(tr.t.Context(), &pods, client.InNamespace(tr.ns), client.MatchingLabels{v1beta1.TemplateLabel: limits.Template}))
	if len(pods.Items) != 1 {
		tr.t.Fatalf("%d pods have the new template", len(pods.Items))
	}
	return fmt.Sprintf(`{"template":%q,"pod":%q,"new":{"requests":100,"failed":%d},"previous":{"requests":100,"failed":0}}`, limits.Template, pods.Items[0].UID, failed)
}
