package controllers_test

import (
	"fmt"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"goless.io/operator/api/v1beta1"
	"goless.io/trigger/api/v1alpha1"
)

// oneOfEachKind returns a trigger of each kind that calls the Function report.
func oneOfEachKind(namespace string) []v1alpha1.Trigger {
	http := &v1alpha1.HTTPTrigger{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "public"},
		Spec: v1alpha1.HTTPTriggerSpec{
			FunctionRef: &v1alpha1.FunctionReference{Name: "report"}, Hostnames: []v1alpha1.Hostname{v1alpha1.Hostname(namespace + ".example")},
		},
	}
	return []v1alpha1.Trigger{cronTrigger(namespace), http, routed(http.DeepCopy()), natsTrigger(namespace), kafkaTrigger(namespace)}
}

// A thousand triggers in their desired state cause no writes, however often they are reconciled.
// The test is not parallel, because it counts all writes of the API server.
func TestThousandAtRest(t *testing.T) {
	namespace := newNamespace(t)
	hosts(t, namespace, "*.example")
	fn := newFunction(t, namespace)
	sorts := oneOfEachKind(namespace)
	each := 1000 / len(sorts)
	for s, sort := range sorts {
		for i := range each {
			trigger := sort.DeepCopyObject().(v1alpha1.Trigger)
			trigger.SetName(fmt.Sprintf("t%d-%d", s, i))
			if http, ok := trigger.(*v1alpha1.HTTPTrigger); ok {
				http.Spec.Hostnames[0] = v1alpha1.Hostname(trigger.GetName() + ".example")
			}
			create(t, trigger)
		}
	}
	settled(t, namespace, each)

	// Each change of spec.scaling reconciles the triggers of the Function, but does not affect
	// them.
	var before map[string]string
	for round := range 3 {
		seen := reconciled(t)
		change(t, fn, func(fn *v1beta1.Function) {
			fn.Spec.Scaling = nil
			if round%2 == 0 {
				fn.Spec.Scaling = &v1beta1.Scaling{}
			}
		})
		eventually(t, "all triggers were looked at once more", func() bool { return reconciled(t) >= seen+float64(each*len(sorts)) })
		if round == 0 { // in which the last triggers reach their desired state
			before = writesOfAnybody(t)
		}
	}
	if diff := cmp.Diff(before, writesOfAnybody(t)); diff != "" || len(before) == 0 {
		t.Errorf("%d triggers at rest have written (-before +after):\n%s", each*len(sorts), diff)
	}
}

// settled waits until n triggers of each kind have their objects and report it.
func settled(t *testing.T, namespace string, n int) {
	t.Helper()
	for list, message := range map[client.ObjectList]string{
		&v1alpha1.CronTriggerList{}:  "the trigger is set up",
		&v1alpha1.HTTPTriggerList{}:  "0 of 1 Gateways accepted the route",
		&v1alpha1.NATSTriggerList{}:  "the consumer pod has not started",
		&v1alpha1.KafkaTriggerList{}: "the consumer pod has not started",
	} {
		eventually(t, fmt.Sprintf("%d triggers say: %s", n, message), func() bool { return messaged(t, list, namespace, message) == n })
	}
	routes := &v1alpha1.HTTPTriggerList{}
	eventually(t, "half of the HTTPTriggers are ready", func() bool { return messaged(t, routes, namespace, "the trigger is set up") == n })
}

// messaged returns the number of triggers in the cache that have a message in the condition Ready.
func messaged(t *testing.T, list client.ObjectList, namespace, message string) (n int) {
	t.Helper()
	if err := mgr.GetClient().List(t.Context(), list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		t.Fatal(err)
	}
	_ = meta.EachListItem(list, func(item runtime.Object) error {
		c := meta.FindStatusCondition(item.(v1alpha1.Trigger).CommonStatus().Conditions, v1alpha1.ConditionReady)
		if c != nil && c.Message == message {
			n++
		}
		return nil
	})
	return n
}

// reconciled returns the number of reconciliations.
func reconciled(t *testing.T) (n float64) {
	t.Helper()
	families, err := ctrlmetrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == "controller_runtime_reconcile_total" {
			for _, metric := range family.GetMetric() {
				n += metric.GetCounter().GetValue()
			}
		}
	}
	return n
}

// written matches the counters of the API server for writes to triggers and their objects. Events
// are excluded, because they arrive late, and only together with a write of a status.
var written = regexp.MustCompile(`(?m)^(apiserver_request_total\{.*resource="(?:[a-z]+triggers|cronjobs|ingresses|httproutes|deployments|services|scaledobjects)".*` +
	`verb="(?:POST|PUT|PATCH|APPLY|DELETE|DELETECOLLECTION)".*\}) (\S+)$`)

// writesOfAnybody returns the counters of writes of all clients.
func writesOfAnybody(t *testing.T) map[string]string {
	t.Helper()
	text, err := apiServer.RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, found := range written.FindAllStringSubmatch(string(text), -1) {
		all[found[1]] = found[2]
	}
	return all
}
