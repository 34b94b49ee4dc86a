package e2e

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A change of spec.service moves the Service and does not change the pods.
func TestChangeOfService(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	fn := ns.ready(ns.apply(function("moving", answering("here"), service("before"))))
	ns.answers(fn, "here")
	pods, template := uids(ns.pods(fn)), get(ns, fn.Name, &appsv1.Deployment{}).Generation

	for _, name := range []string{"after", ""} {
		previous := fn.ServiceName()
		fn = ns.ready(ns.change(fn, service(name)))
		if fn.Status.URL != url(fn) {
			t.Errorf("status.url is %q, want %q", fn.Status.URL, url(fn))
		}
		gone(ns, "the old Service is gone", func(s *corev1.Service) bool { return s.Name == previous })
		ns.answers(fn, "here")
	}
	if diff := cmp.Diff(pods, uids(ns.pods(fn))); diff != "" {
		t.Errorf("the pods were replaced:\n%s", diff)
	}
	if now := get(ns, fn.Name, &appsv1.Deployment{}).Generation; now != template {
		t.Errorf("the Deployment was written: generation %d, previously %d", now, template)
	}
}

// A change of spec.serverPort, to one that usually requires root.
func TestChangeOfPort(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	fn := ns.ready(ns.apply(function("docking", answering("docked"))))
	ns.answers(fn, "docked")
	for _, port := range []int32{9000, 80, 65535} {
		fn = ns.ready(ns.change(fn, serverPort(port)))
		ns.answers(fn, "docked")
		if fn.Status.URL != url(fn) {
			t.Errorf("status.url is %q, want %q", fn.Status.URL, url(fn))
		}
	}
	ns.alwaysServed(fn)
}

func restrictedPod() corev1.PodSpec {
	return corev1.PodSpec{
		SecurityContext: &corev1.PodSecurityContext{
			RunAsNonRoot:   new(true),
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
		Containers: []corev1.Container{{
			Name: "somebody", Image: "somebody",
			SecurityContext: &corev1.SecurityContext{
				AllowPrivilegeEscalation: new(false),
				Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			},
		}},
	}
}

func somebodysService(name string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"owner": "somebody"}},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": "somebody"},
			Ports:    []corev1.ServicePort{{Port: 8080}},
		},
	}
}
