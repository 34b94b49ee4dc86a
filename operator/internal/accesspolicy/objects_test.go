package accesspolicy_test

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/apiservertest"
	"goless.io/operator/internal/desired"
)

// Objects without an owner, or with another owner, cannot be changed.
func TestForeignObjects(t *testing.T) {
	operator := operatorClient(t)
	namespace := apiservertest.NewNamespace(t, cluster)
	meta := metav1.ObjectMeta{Name: "bank", Namespace: namespace}
	labels := map[string]string{"app": "bank"}
	theirs := []client.Object{
		&corev1.ConfigMap{ObjectMeta: meta},
		&corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 1}}}},
		&appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
			},
		}},
	}
	for _, object := range theirs {
		if err := cluster.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
		adopt := client.MergeFrom(object.DeepCopyObject().(client.Object))
		object.SetOwnerReferences([]metav1.OwnerReference{{
			APIVersion: "goless.io/v1beta1", Kind: "Function", Name: "bank", UID: "1", Controller: new(true),
		}})
		if err := operator.Patch(t.Context(), object, adopt, client.DryRunAll); !rejectedByPolicy(err) {
			t.Errorf("adopting %T: %v", object, err)
		}
		if err := operator.Delete(t.Context(), object, client.DryRunAll); !rejectedByPolicy(err) {
			t.Errorf("deleting %T: %v", object, err)
		}
	}

	service := convert(t, desired.Service(sampleFunction(namespace)), &corev1.Service{})
	if err := operator.Create(t.Context(), service); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*corev1.ServiceSpec){
		"external":  func(s *corev1.ServiceSpec) { s.ExternalIPs = []string{"203.0.113.1"} },
		"node port": func(s *corev1.ServiceSpec) { s.Type = corev1.ServiceTypeNodePort },
		"selector":  func(s *corev1.ServiceSpec) { s.Selector = labels },
	} {
		changed := service.DeepCopy()
		change(&changed.Spec)
		if err := operator.Patch(t.Context(), changed, client.MergeFrom(service), client.DryRunAll); !rejectedByPolicy(err) {
			t.Errorf("a Service with another %s: %v", name, err)
		}
	}
}

// The operator can delete a Deployment that awaits its first build and has no ready replicas, and no
// other one. It cannot mark a Deployment that exists.
func TestDeletingDeployments(t *testing.T) {
	operator, namespace := operatorClient(t), apiservertest.NewNamespace(t, cluster)
	for name, test := range map[string]struct {
		marked  bool
		ready   int32
		allowed bool
	}{
		"awaits":       {true, 0, true},
		"awaits-ready": {true, 1, false},
		"built":        {false, 0, false},
	} {
		fn := sampleFunction(namespace)
		fn.Name = name
		want := desired.Deployment(fn, installed, "", nil)
		if test.marked {
			desired.MarkAwaitsBuild(want)
		}
		d := convert(t, want, &appsv1.Deployment{})
		if err := operator.Create(t.Context(), d); err != nil {
			t.Fatal(err)
		}
		d.Status = appsv1.DeploymentStatus{Replicas: 1, ReadyReplicas: test.ready}
		if err := cluster.Status().Update(t.Context(), d); err != nil {
			t.Fatal(err)
		}
		mark := client.MergeFrom(d.DeepCopy())
		d.Labels["goless.io/awaits-build"] = "true"
		if err := operator.Patch(t.Context(), d, mark, client.DryRunAll); (err == nil) != test.marked || err != nil && !rejectedByPolicy(err) {
			t.Errorf("marking %s: %v", name, err)
		}
		if err := operator.Delete(t.Context(), d, client.DryRunAll); (err == nil) != test.allowed || err != nil && !rejectedByPolicy(err) {
			t.Errorf("deleting %s: %v", name, err)
		}
	}
}

// An object that the operator applied and that has lost its owner may be adopted by a Function of
// the same name.
func TestAccessPolicyForOrphans(t *testing.T) {
	operator, namespace := operatorClient(t), apiservertest.NewNamespace(t, cluster)
	fn := sampleFunction(namespace)
	deployment, service, source := desired.Deployment(fn, installed, "", nil), desired.Service(fn), desired.ConfigMap(fn)
	for name, test := range map[string]struct {
		manager string
		label   string
		owner   string
		allowed bool
	}{
		"orphan":           {desired.FieldOwner, fn.Name, fn.Name, true},
		"another manager":  {"kubectl", fn.Name, fn.Name, false},
		"another function": {desired.FieldOwner, "other", fn.Name, false},
		"another owner":    {desired.FieldOwner, fn.Name, "other", false},
	} {
		for _, want := range []runtime.ApplyConfiguration{
			deployment.WithLabels(map[string]string{desired.FunctionLabel: test.label}), service.WithLabels(map[string]string{desired.FunctionLabel: test.label}),
			source.WithLabels(map[string]string{desired.FunctionLabel: test.label}),
		} {
			object := convert(t, want, &unstructured.Unstructured{})
			object.SetOwnerReferences(nil)
			if err := cluster.Patch(t.Context(), object, client.Apply, client.FieldOwner(test.manager), client.ForceOwnership); err != nil { //nolint:staticcheck // of an object that is not typed
				t.Fatal(err)
			}
			adopt := client.MergeFrom(object.DeepCopy())
			object.SetLabels(map[string]string{desired.FunctionLabel: test.owner})
			object.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "goless.io/v1beta1", Kind: "Function", Name: test.owner, UID: "1", Controller: new(true)}})
			if err := operator.Patch(t.Context(), object, adopt, client.DryRunAll); (err == nil) != test.allowed || err != nil && !rejectedByPolicy(err) {
				t.Errorf("%s: adopting %s: %v", name, object.GetKind(), err)
			}
			if err := cluster.Delete(t.Context(), object); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// The other objects of a Function must have the shape that the operator gives them.
func TestAccessPolicyForChildren(t *testing.T) {
	operator, namespace := operatorClient(t), apiservertest.NewNamespace(t, cluster)
	ours := map[string]string{desired.FunctionLabel: "bank"}
	meta := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: name, Namespace: namespace, Labels: ours, OwnerReferences: []metav1.OwnerReference{{
			APIVersion: "goless.io/v1beta1", Kind: "Function", Name: "bank", UID: "1", Controller: new(true),
		}}}
	}
	source := func(name, key string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: meta(name), Immutable: new(true), Data: map[string]string{key: "x"}}
	}
	budget := func(most int32, selector map[string]string) *policyv1.PodDisruptionBudget {
		return &policyv1.PodDisruptionBudget{ObjectMeta: meta("bank"), Spec: policyv1.PodDisruptionBudgetSpec{
			MaxUnavailable: new(intstr.FromInt32(most)), Selector: &metav1.LabelSelector{MatchLabels: selector},
		}}
	}
	network := func(selector map[string]string) *networkingv1.NetworkPolicy {
		return &networkingv1.NetworkPolicy{ObjectMeta: meta("bank"), Spec: networkingv1.NetworkPolicySpec{PodSelector: metav1.LabelSelector{MatchLabels: selector}}}
	}
	autoscaler := func(change func(*autoscalingv2.HorizontalPodAutoscaler)) *autoscalingv2.HorizontalPodAutoscaler {
		fn := &v1beta1.Function{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "bank", UID: "1"}}
		fn.Spec.Scaling = &v1beta1.Scaling{Max: new(int32(100))}
		a := convert(t, desired.Autoscaler(fn, installed), &autoscalingv2.HorizontalPodAutoscaler{})
		change(a)
		return a
	}
	record := func(name string) *appsv1.ControllerRevision {
		return &appsv1.ControllerRevision{ObjectMeta: meta(name), Data: runtime.RawExtension{Raw: []byte("{}")}, Revision: 1}
	}
	sleeps := &corev1.Service{ObjectMeta: meta("pay"), Spec: corev1.ServiceSpec{Selector: ours, Ports: []corev1.ServicePort{{Port: 1}}}}
	sleeps.Annotations = map[string]string{v1beta1.SleepAfterAnnotation: "5m0s"}
	usual := autoscaler(func(*autoscalingv2.HorizontalPodAutoscaler) {})
	for _, allowed := range []client.Object{source("bank-0123456789", "handler.go"), budget(1, ours), network(ours), sleeps, usual, record("bank-0123456789")} {
		if err := operator.Create(t.Context(), allowed, client.DryRunAll); err != nil {
			t.Errorf("%T is rejected: %v", allowed, err)
		}
	}
	unlabelled := source("bank-0123456789", "handler.go")
	unlabelled.Labels = nil
	endless := source("bank-0123456789", "handler.go")
	endless.Finalizers = []string{"example.com/x"}
	twice := source("bank-0123456789", "handler.go")
	twice.OwnerReferences = append(twice.OwnerReferences, metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "kube-root-ca.crt", UID: "2"})
	published := &corev1.Service{ObjectMeta: meta("pay"), Spec: corev1.ServiceSpec{Selector: ours, Ports: []corev1.ServicePort{{Port: 1}}}}
	if err := operator.Create(t.Context(), published.DeepCopy(), client.DryRunAll); err != nil {
		t.Errorf("a Service is rejected: %v", err)
	}
	published.Annotations = map[string]string{"external-dns.alpha.kubernetes.io/hostname": "bank.example.com"}
	for name, refused := range map[string]client.Object{
		"name of a ControllerRevision": record("database-0123456789"),
		"name of a ConfigMap":          source("kube-root-ca.crt", "handler.go"), "key of a ConfigMap": source("bank-0123456789", "ca.crt"),
		"second owner": twice, "annotation of a Service": published, "no label": unlabelled, "no end": endless, "budget of nothing": budget(0, ours), "budget of others": budget(1, map[string]string{}),
		"autoscaler without owner": autoscaler(func(a *autoscalingv2.HorizontalPodAutoscaler) { a.OwnerReferences = nil }),
		"autoscaler of another":    autoscaler(func(a *autoscalingv2.HorizontalPodAutoscaler) { a.Spec.ScaleTargetRef.Name = "other" }),
		"autoscaler of a kind":     autoscaler(func(a *autoscalingv2.HorizontalPodAutoscaler) { a.Spec.ScaleTargetRef.Kind = "StatefulSet" }),
		"autoscaler of a name":     autoscaler(func(a *autoscalingv2.HorizontalPodAutoscaler) { a.Name = "other" }),
		"autoscaler without end":   autoscaler(func(a *autoscalingv2.HorizontalPodAutoscaler) { a.Spec.MaxReplicas = 101 }),
		"network of all":           network(nil), "network of others": network(map[string]string{"app": "bank"}),
	} {
		if err := operator.Create(t.Context(), refused, client.DryRunAll); !rejectedByPolicy(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Events must refer to Functions, and the Lease must have the name of the operator's.
func TestAccessPolicyForEventsAndLeases(t *testing.T) {
	operator := operatorClient(t)
	now := metav1.NowMicro()
	event := func(namespace string, about corev1.ObjectReference) client.Object {
		about.Namespace = namespace
		return &eventsv1.Event{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "event-", Namespace: namespace}, EventTime: now, Type: "Normal",
			ReportingController: "goless-operator", ReportingInstance: "a", Action: "a", Reason: "a", Regarding: about,
		}
	}
	core := func(namespace string, about corev1.ObjectReference) client.Object {
		about.Namespace = namespace
		return &corev1.Event{ObjectMeta: metav1.ObjectMeta{GenerateName: "event-", Namespace: namespace}, Type: "Normal", InvolvedObject: about}
	}
	lease := func(name string) client.Object {
		return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "goless-system"}}
	}
	function := corev1.ObjectReference{APIVersion: "goless.io/v1beta1", Kind: "Function", Name: "f"}
	pod := corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Name: "p"}
	leader := corev1.ObjectReference{APIVersion: "coordination.k8s.io/v1", Kind: "Lease", Name: "goless-operator"}
	for name, refused := range map[string]client.Object{
		"Event about a pod": event("default", pod), "Event about a pod nearby": core("goless-system", pod),
		"Event about another Lease": core("goless-system", corev1.ObjectReference{Kind: "Lease", Name: "other"}), "Lease": lease("other"),
	} {
		if err := operator.Create(t.Context(), refused, client.DryRunAll); !rejectedByPolicy(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, allowed := range map[string]client.Object{
		"Event about a Function": event("default", function), "Event about the leader": event("goless-system", leader),
		"Event about the leader, in the old way": core("goless-system", leader), "its Lease": lease("goless-operator"),
	} {
		if err := operator.Create(t.Context(), allowed, client.DryRunAll); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func rejectedByPolicy(err error) bool {
	return apierrors.IsInvalid(err) && strings.Contains(err.Error(), "ValidatingAdmissionPolicy")
}
