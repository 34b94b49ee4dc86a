package function_test

import (
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/apiservertest"
	"goless.io/operator/internal/buildclient/buildtest"
	"goless.io/operator/internal/desired"
)

// degraded waits until Degraded has a reason, or until there is no such condition if reason is
// empty.
func degraded(t *testing.T, fn *v1beta1.Function, reason string) (message string) {
	t.Helper()
	eventually(t, "Degraded is "+reason, func() bool {
		c := meta.FindStatusCondition(get(t, fn).Status.Conditions, v1beta1.ConditionDegraded)
		if c == nil || reason == "" {
			return c == nil && reason == ""
		}
		message = c.Message
		return c.Status == metav1.ConditionTrue && c.Reason == reason
	})
	return message
}

// forbid creates a quota that does not allow more objects of a kind.
func forbid(t *testing.T, namespace string, kind corev1.ResourceName) *corev1.ResourceQuota {
	t.Helper()
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "none"}}
	quota.Spec.Hard = corev1.ResourceList{kind: resource.MustParse("0")}
	if err := cluster.Create(t.Context(), quota); err != nil {
		t.Fatal(err)
	}
	quota.Status = corev1.ResourceQuotaStatus{Hard: quota.Spec.Hard, Used: quota.Spec.Hard} // as a controller does
	if err := cluster.Status().Update(t.Context(), quota); err != nil {
		t.Fatal(err)
	}
	return quota
}

// If a quota prevents the creation of an object that a function does not need to serve, the
// function is ready, and a condition and one event report the error.
func TestQuotas(t *testing.T) {
	replies(t, buildtest.Reply{Report: buildtest.Built})
	for reason, test := range map[string]struct {
		kind   corev1.ResourceName
		change func(*v1beta1.Function)
		after  string // the reason without the quota
	}{
		v1beta1.ReasonDisruptionBudgetFailed: {"count/poddisruptionbudgets.policy", func(fn *v1beta1.Function) {
			fn.Spec.Replicas = new(int32(2))
		}, ""},
		v1beta1.ReasonAutoscalerFailed: {"count/horizontalpodautoscalers.autoscaling", func(fn *v1beta1.Function) {
			fn.Spec.Scaling = &v1beta1.Scaling{Max: new(int32(5))}
		}, ""},
		v1beta1.ReasonSourceNotStored:     {"count/configmaps", shared, ""},
		v1beta1.ReasonRevisionNotRecorded: {"count/controllerrevisions.apps", func(*v1beta1.Function) {}, v1beta1.ReasonAutoscalerConflict},
	} {
		t.Run(reason, func(t *testing.T) {
			namespace := apiservertest.NewNamespace(t, cluster)
			quota := forbid(t, namespace, test.kind)
			if test.after == v1beta1.ReasonAutoscalerConflict { // which is not the reason yet: a failure precedes it
				defer remove(t, scaleByOthers(t, namespace, "degraded", 3))
			}
			fn := create(t, "degraded", func(fn *v1beta1.Function) { fn.Namespace = namespace; test.change(fn) })
			serve(t, fn)
			if message := degraded(t, fn, reason); !strings.Contains(message, "exceeded quota: none") {
				t.Errorf("message of Degraded: %q", message)
			}
			change(t, fn, func(fn *v1beta1.Function) { fn.Spec.Concurrency = 7 }) // retries
			serve(t, fn)
			eventually(t, "event recorded", func() bool { return warnings(t, fn, reason) == 1 })
			if err := cluster.Delete(t.Context(), quota); err != nil {
				t.Fatal(err)
			}
			degraded(t, fn, test.after)
			if n := warnings(t, fn, reason); n != 1 {
				t.Errorf("%d events, want 1", n)
			}
		})
	}
}

// warnings returns the number of warning events with a reason in the namespace of a Function.
func warnings(t *testing.T, fn *v1beta1.Function, reason string) (n int32) {
	t.Helper()
	var all eventsv1.EventList
	if err := cluster.List(t.Context(), &all, client.InNamespace(fn.Namespace)); err != nil {
		t.Fatal(err)
	}
	for _, event := range all.Items {
		switch {
		case event.Reason != reason || event.Type != corev1.EventTypeWarning:
		case event.Series != nil:
			n += event.Series.Count
		default:
			n++
		}
	}
	return n
}

// If a ConfigMap of the environment cannot be read, the pods do not change and the function stays
// ready. An update of the Function keeps the hash of the previous values.
func TestUnreadableReference(t *testing.T) {
	fn := create(t, "unreadable", func(fn *v1beta1.Function) {
		fn.Spec.EnvFrom = []v1beta1.EnvFromSource{{ConfigMapRef: &v1beta1.ObjectRef{Name: "all"}}}
	})
	configMap(t, fn, "all", map[string]string{"A": "1"})
	want := desired.Digest([]string{desired.Digest(map[string]string{"A": "1"})})
	of := func(d *appsv1.Deployment) bool { return d.Spec.Template.Annotations[desired.ValuesAnnotation] == want }
	before := await(t, fn, fn.Name, &appsv1.Deployment{}, of)
	serve(t, fn)
	var readable atomic.Bool
	log := &writeLog{answer: func(r *http.Request) (*http.Response, error) {
		if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/"+fn.Namespace+"/configmaps/all") && !readable.Load() {
			return nil, errors.New("no route to host")
		}
		return nil, nil
	}}
	exchangeOperator(t, configured, log) // the new operator has not cached the ConfigMap
	if message := degraded(t, fn, v1beta1.ReasonReferenceUnreadable); !strings.Contains(message, `ConfigMap "all"`) {
		t.Errorf("message of Degraded: %q", message)
	}
	if !has(t, fn, v1beta1.ConditionReady) {
		t.Errorf("the status is %+v", get(t, fn).Status)
	}
	if now := await(t, fn, fn.Name, &appsv1.Deployment{}, nil); now.Generation != before.Generation {
		t.Errorf("the Deployment was changed: %+v", now.Spec.Template)
	}
	change(t, fn, func(fn *v1beta1.Function) { fn.Spec.Function += "// changed" })
	await(t, fn, fn.Name, &appsv1.Deployment{}, func(d *appsv1.Deployment) bool { return d.Generation > before.Generation && of(d) })
	serve(t, fn)
	readable.Store(true)
	degraded(t, fn, "")
}
