package e2e

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"goless.io/operator/api/v1beta1"
)

// A change of spec.service moves the Service and leaves the pods alone.
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
		t.Errorf("the pods were exchanged:\n%s", diff)
	}
	if now := get(ns, fn.Name, &appsv1.Deployment{}).Generation; now != template {
		t.Errorf("the Deployment was written: generation %d, before %d", now, template)
	}
}

// A change of spec.serverPort, to one that only root could bind elsewhere too.
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

// A Service that is not ours is left as it is, to the byte; once the name is
// free, it is ours.
func TestServiceOfSomebodyElse(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	ns.create(somebodysService("taken"))
	before := ns.rawService("taken")

	fn := ns.stalled(ns.apply(function("late", answering("mine now"), service("taken"))), v1beta1.ReasonServiceConflict)
	if got := condition(fn, v1beta1.ConditionReady).Message; !strings.Contains(got, `Service "taken"`) || !strings.Contains(got, "choose another spec.service") {
		t.Errorf("Ready does not say what is taken and what to do: %q", got)
	}
	fn = ns.becomes(fn, "there, but for the Service", func(fn *v1beta1.Function) bool {
		return condition(fn, v1beta1.ConditionAvailable).Reason == v1beta1.ReasonNoService
	})
	ns.has(fn, v1beta1.ConditionStalled, metav1.ConditionTrue, v1beta1.ReasonServiceConflict)
	if fn.Status.URL != "" {
		t.Errorf("status.url is %q, and there is no Service", fn.Status.URL)
	}
	ns.agree(fn)
	if diff := cmp.Diff(before, ns.rawService("taken")); diff != "" {
		t.Errorf("the Service of somebody else was changed:\n%s", diff)
	}

	ns.kubectl("delete", "service", "taken")
	fn = ns.ready(fn)
	ns.answers(fn, "mine now")
}

// Who moves to a taken name keeps the old one for the time being.
func TestMoveToServiceOfSomebodyElse(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	ns.create(somebodysService("taken"))
	before := ns.rawService("taken")
	fn := ns.ready(ns.apply(function("mover", answering("at home"), service("home"))))
	home := fn.DeepCopy()

	fn = ns.stalled(ns.change(fn, service("taken")), v1beta1.ReasonServiceConflict)
	ns.answers(home, "at home")
	if fn.Status.URL != url(home) {
		t.Errorf("status.url is %q, want %q", fn.Status.URL, url(home))
	}
	if diff := cmp.Diff(before, ns.rawService("taken")); diff != "" {
		t.Errorf("the Service of somebody else was changed:\n%s", diff)
	}
	fn = ns.ready(ns.change(fn, service("home")))
	ns.answers(fn, "at home")
}

// The first of two Functions with one spec.service has it.
func TestServiceOfAnotherFunction(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	one := ns.ready(ns.apply(function("one", answering("one"), service("shared"))))
	two := ns.stalled(ns.apply(function("two", answering("two"), service("shared"))), v1beta1.ReasonServiceConflict)
	if got := condition(two, v1beta1.ConditionReady).Message; !strings.Contains(got, `Service "shared" belongs to Function "one"`) {
		t.Errorf("Ready does not say whose the Service is: %q", got)
	}
	ns.answers(one, "one")
	ns.ready(one)

	ns.kubectl("delete", "function", "one")
	ns.answers(ns.ready(two), "two")
}

// So it is with Deployments.
func TestDeploymentOfSomebodyElse(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	labels := map[string]string{"app": "somebody"}
	foreign := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "named-alike"}}
	foreign.Spec.Replicas = new(int32(0))
	foreign.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
	foreign.Spec.Template.Labels = labels
	foreign.Spec.Template.Spec = restrictedPod()
	ns.create(foreign)

	fn := ns.stalled(ns.apply(function("named-alike", answering("alone"))), v1beta1.ReasonNotOwned)
	if d := get(ns, "named-alike", &appsv1.Deployment{}); d.Generation != 1 || len(d.OwnerReferences) > 0 {
		t.Errorf("the Deployment of somebody else was changed:\n%s", yamlOf(d))
	}
	ns.kubectl("delete", "deployment", "named-alike")
	ns.answers(ns.ready(fn), "alone")
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

// rawService is everything that the API server has of a Service.
func (ns *namespace) rawService(name string) string {
	ns.t.Helper()
	raw := &unstructured.Unstructured{}
	raw.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Service"))
	return yamlOf(get(ns, name, raw).Object)
}
