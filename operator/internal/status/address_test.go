package status_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/apply"
	"goless.io/operator/internal/status"
)

// The address is the URL of the Service with its port, and is removed with the Service.
func TestAddress(t *testing.T) {
	fn := function(1)
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "sample", Namespace: "shop"},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 9000}, {Port: 9090}}},
	}
	fn.Status = status.Of(fn, status.Seen{Outcome: apply.Outcome{Service: service}})
	if diff := cmp.Diff(&v1beta1.Address{URL: "http://sample.shop.svc:9000"}, fn.Status.Address); diff != "" {
		t.Errorf("address (-want +got):\n%s", diff)
	}
	if gone := status.Of(fn, status.Seen{}); gone.Address != nil || gone.URL != "" {
		t.Errorf("without a Service: address %v, URL %q", gone.Address, gone.URL)
	}
}
