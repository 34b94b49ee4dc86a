package function_test

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/apiservertest"
	"goless.io/operator/internal/desired"
)

// A change of a ConfigMap changes the pod template of a sleeping function and does not wake it.
func TestReferenceOfSleepingFunction(t *testing.T) {
	var all *corev1.ConfigMap
	fn := create(t, "undisturbed", func(fn *v1beta1.Function) {
		fn.Namespace = apiservertest.NewNamespace(t, cluster)
		all = configMap(t, fn, "all", map[string]string{"A": "1"})
		scaling(0, 1)(fn)
		fn.Spec.EnvFrom = []v1beta1.EnvFromSource{{ConfigMapRef: &v1beta1.ObjectRef{Name: "all"}}}
	})
	want := func(value string) func(*appsv1.Deployment) bool {
		hash := desired.Digest([]string{desired.Digest(map[string]string{"A": value})})
		return func(d *appsv1.Deployment) bool { return d.Spec.Template.Annotations[desired.ValuesAnnotation] == hash }
	}
	await(t, fn, fn.Name, &appsv1.Deployment{}, want("1"))
	serve(t, fn)
	routeToActivator(t, fn)
	scale(t, fn, 0)
	follow(t, fn)
	awaitReady(t, fn, v1beta1.ReasonAsleep)
	stop := sizes(t, fn)
	all.Data["A"] = "2"
	overwrite(t, all)
	await(t, fn, fn.Name, &appsv1.Deployment{}, want("2"))
	follow(t, fn)
	awaitReady(t, fn, v1beta1.ReasonAsleep)
	if got := stop(); !slices.Equal(got, []int32{0}) {
		t.Errorf("replicas were %v, want only 0", got)
	}
}

// If no activator can wake a function, the function is not ready and keeps sleeping. After a failed
// wake-up, it is not ready until one of its pods is.
func TestSleepingFunctionThatCannotWake(t *testing.T) {
	fn := create(t, "fast-asleep", scaling(0, 1))
	serve(t, fn)
	slice := routeToActivator(t, fn)
	scale(t, fn, 0)
	follow(t, fn)
	awaitReady(t, fn, v1beta1.ReasonAsleep)
	stop := sizes(t, fn)

	setReady := func(ready corev1.ConditionStatus) {
		t.Helper()
		pod := activatorPod(t)
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}
		if err := cluster.Status().Update(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
	}
	setReady(corev1.ConditionFalse)
	awaitReady(t, fn, v1beta1.ReasonNoActivator)
	if has(t, fn, v1beta1.ConditionAvailable) || has(t, fn, v1beta1.ConditionStalled) {
		t.Errorf("without an activator: %+v", get(t, fn).Status.Conditions)
	}
	setReady(corev1.ConditionTrue)
	awaitReady(t, fn, v1beta1.ReasonAsleep)

	endpoints := slice.Endpoints
	slice.Endpoints = nil
	overwrite(t, slice)
	awaitReady(t, fn, v1beta1.ReasonNoActivator)
	slice.Endpoints = endpoints
	overwrite(t, slice)
	awaitReady(t, fn, v1beta1.ReasonAsleep)

	scale(t, fn, 1)
	metav1.SetMetaDataAnnotation(&slice.ObjectMeta, v1beta1.WakeFailedAnnotation, "no pod within a minute")
	overwrite(t, slice)
	if ready := awaitReady(t, fn, v1beta1.ReasonWakeFailed); !strings.Contains(ready.Message, "no pod within a minute") || has(t, fn, v1beta1.ConditionAvailable) {
		t.Errorf("after a failed wake: %+v", get(t, fn).Status.Conditions)
	}
	follow(t, fn)
	awaitReady(t, fn, v1beta1.ReasonServing)
	slice.Annotations = nil
	overwrite(t, slice)
	scale(t, fn, 0)
	follow(t, fn)
	awaitReady(t, fn, v1beta1.ReasonAsleep)
	if got, want := stop(), []int32{0, 1, 0}; !slices.Equal(got, want) {
		t.Errorf("replicas were %v, want %v", got, want)
	}
}

// activatorPod creates a ready pod of the activator, or returns the existing one.
func activatorPod(t *testing.T) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "goless-system", Name: "goless-activator-test", Labels: map[string]string{"app.kubernetes.io/name": "goless-activator"}},
		Spec: corev1.PodSpec{
			SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: new(true), SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
			Containers: []corev1.Container{{Name: "activator", Image: "i", SecurityContext: &corev1.SecurityContext{
				AllowPrivilegeEscalation: new(false), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			}}},
		},
	}
	err := cluster.Create(t.Context(), pod)
	if apierrors.IsAlreadyExists(err) {
		err = cluster.Get(t.Context(), client.ObjectKeyFromObject(pod), pod)
	} else if err == nil {
		pod.Status = corev1.PodStatus{
			Phase: corev1.PodRunning, PodIP: "192.0.2.1", PodIPs: []corev1.PodIP{{IP: "192.0.2.1"}},
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		}
		err = cluster.Status().Update(t.Context(), pod)
	}
	if err != nil {
		t.Fatal(err)
	}
	return pod
}

// routeToActivator creates an EndpointSlice that routes the requests of a Function to the
// activator.
func routeToActivator(t *testing.T, fn *v1beta1.Function) *discoveryv1.EndpointSlice {
	t.Helper()
	pod := activatorPod(t)
	service := await(t, fn, fn.ServiceName(), &corev1.Service{}, ownedByApply)
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: fn.Namespace, Name: service.Name + "-activator",
			Labels: map[string]string{
				discoveryv1.LabelServiceName: service.Name, discoveryv1.LabelManagedBy: "goless-activator", v1beta1.FunctionLabel: fn.Name,
			},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Service", Name: service.Name, UID: service.UID}},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{pod.Status.PodIP}}},
	}
	if err := cluster.Create(t.Context(), slice); err != nil {
		t.Fatal(err)
	}
	return slice
}
