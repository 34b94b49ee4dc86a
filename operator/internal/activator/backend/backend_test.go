package backend

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"goless.io/operator/api/v1beta1"
)

func TestFromService(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*corev1.Service)
		want   bool
		sleeps bool
	}{
		"MaySleep":       {func(*corev1.Service) {}, true, true},
		"NoAnnotation":   {func(s *corev1.Service) { s.Annotations = nil }, true, false},
		"NoDuration":     {func(s *corev1.Service) { s.Annotations[v1beta1.SleepAfterAnnotation] = "soon" }, true, false},
		"NegativeTime":   {func(s *corev1.Service) { s.Annotations[v1beta1.SleepAfterAnnotation] = "-5m" }, true, false},
		"NoLabel":        {func(s *corev1.Service) { s.Labels = nil }, false, false},
		"AnotherLabel":   {func(s *corev1.Service) { s.Labels[v1beta1.FunctionLabel] = "other" }, false, false},
		"NoOwner":        {func(s *corev1.Service) { s.OwnerReferences = nil }, false, false},
		"NoController":   {func(s *corev1.Service) { s.OwnerReferences[0].Controller = nil }, false, false},
		"AnotherKind":    {func(s *corev1.Service) { s.OwnerReferences[0].Kind = "Deployment" }, false, false},
		"AnotherGroup":   {func(s *corev1.Service) { s.OwnerReferences[0].APIVersion = "goless.io.example/v1" }, false, false},
		"BeingDeleted":   {func(s *corev1.Service) { s.DeletionTimestamp = &metav1.Time{Time: time.Now()} }, false, false},
		"AnotherVersion": {func(s *corev1.Service) { s.OwnerReferences[0].APIVersion = "goless.io/v1" }, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{
				Namespace: "default", Name: "greeting", UID: "1",
				Labels:      map[string]string{v1beta1.FunctionLabel: "hello"},
				Annotations: map[string]string{v1beta1.SleepAfterAnnotation: "5m0s", v1beta1.TimeoutAnnotation: "1m30s"},
				OwnerReferences: []metav1.OwnerReference{
					{APIVersion: "goless.io/v1beta1", Kind: "Function", Name: "hello", UID: "2", Controller: new(true)},
				},
			}}
			s.Spec.Ports = []corev1.ServicePort{{Name: "metrics"}, {Name: PortName, AppProtocol: new("kubernetes.io/h2c")}}
			test.change(s)
			got, ok := FromService(s)
			if ok != test.want || got.MaySleep() != test.sleeps || got.MaySleep() && (got.SleepAfter != 5*time.Minute || got.Timeout != 90*time.Second) || ok && (got.Function.Name != "hello" || got.FunctionUID != "2" || *got.AppProtocol != "kubernetes.io/h2c" || got.UID != "1") {
				t.Errorf("got %t, %+v", ok, got)
			}
		})
	}
}
