package faults

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
	"goless.io/test/faults/wire"
)

// TestHangingWebhook installs an admission webhook that matches all objects of a namespace and
// never responds. The Function there reports what it waits for; others are not delayed.
func TestHangingWebhook(t *testing.T) {
	enter(t)
	s := named("create")
	want := s.reference(t)
	tr, other := newTrial(t), newTrial(t)
	remove := tr.hangAdmission()
	tr.create()
	other.begin()
	s.act(other)
	other.judge(want)
	if other.done.After(pauses.after(other.begun, 9*time.Second)) {
		t.Errorf("an unaffected Function took %s", other.took())
	}
	table.note(t, "bystander", true, other)
	tr.await(tr.reason(v1beta1.ReasonApplyFailed))
	remove()
	tr.begin()
	tr.judge(want)
	table.note(t, "webhook hangs", true, tr)
	quiet(t, []*trial{tr, other})
}

// hangAdmission makes the API server call a webhook that never responds.
func (tr *trial) hangAdmission() (remove func()) {
	tr.t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	tr.must(err)
	tr.t.Cleanup(func() { listener.Close() }) //nolint:errcheck // the listener is closed in any case
	url := fmt.Sprintf("https://%s/", listener.Addr())
	hook := &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: tr.ns}}
	hook.Webhooks = []admissionv1.ValidatingWebhook{{
		Name: "hangs.example.com", ClientConfig: admissionv1.WebhookClientConfig{URL: &url},
		TimeoutSeconds: new(int32(10)), FailurePolicy: new(admissionv1.Fail), SideEffects: new(admissionv1.SideEffectClassNone),
		AdmissionReviewVersions: []string{"v1"},
		NamespaceSelector:       &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": tr.ns}},
		Rules: []admissionv1.RuleWithOperations{{
			Operations: []admissionv1.OperationType{admissionv1.Create, admissionv1.Update},
			Rule:       admissionv1.Rule{APIGroups: []string{"", "apps"}, APIVersions: []string{"*"}, Resources: []string{"deployments", "services", "configmaps"}},
		}},
	}}
	tr.must(world(tr.t).client.Create(tr.t.Context(), hook))
	remove = func() {
		tr.must(client.IgnoreNotFound(world(tr.t).client.Delete(context.WithoutCancel(tr.t.Context()), hook)))
	}
	tr.t.Cleanup(remove)
	tr.await(func() error { // until it is in force
		err := world(tr.t).client.Create(tr.t.Context(), blank("ConfigMap", tr.ns, "probe"), client.DryRunAll)
		if err == nil {
			return errors.New("the webhook is not asked")
		}
		return nil
	})
	return remove
}

// TestFinalizers deletes an object that has a finalizer. It is ignored while it is terminating,
// and recreated when it is gone.
func TestFinalizers(t *testing.T) {
	enter(t)
	kinds := []string{"Deployment", "Service", "ConfigMap"}
	over := prepared(t, len(kinds), func(tr *trial) { tr.create() })
	defer func() { quiet(t, over) }()
	var objects []*unstructured.Unstructured
	var wants []state
	finalize := func(i int, patch string) {
		over[i].must(world(t).client.Patch(t.Context(), objects[i].DeepCopy(), client.RawPatch(types.MergePatchType, []byte(patch))))
	}
	for i, tr := range over {
		wants, objects = append(wants, tr.whole()), append(objects, tr.child(kinds[i]))
		finalize(i, `{"metadata":{"finalizers":["example.com/wait"]}}`)
		tr.must(world(t).client.Delete(t.Context(), objects[i].DeepCopy()))
	}
	deleted := time.Now()
	calmed(t, over)
	over[0].change(replicas(2)) // nothing can come of it yet
	calmed(t, over)
	over[0].change(replicas(1))
	for i, tr := range over {
		t.Run(kinds[i], func(t *testing.T) {
			tr.t = t
			defer func() { table.note(t, "finalizer", true, tr) }()
			tr.unwritten(kinds[i], deleted)
			if now := world(t).witness.live(kinds[i], tr.ns, objects[i].GetName()); now == nil || now.GetUID() != objects[i].GetUID() {
				t.Fatalf("the %s was removed although it has a finalizer", kinds[i])
			}
			finalize(i, `{"metadata":{"finalizers":null}}`)
			tr.begin()
			tr.await(func() error { return tr.children().like(wants[i].objects()) })
			tr.awaitReady()
			tr.done = time.Now()
			tr.truth()
			tr.untouched()
			world(t).unbroken(t)
		})
	}
}

// unwritten fails the test if the operator has written objects of a kind since a time.
func (tr *trial) unwritten(kind string, since time.Time) {
	tr.t.Helper()
	for _, event := range world(tr.t).audit.of(tr.t, tr.ns) {
		if event.IsWrite() && event.ObjectRef.Resource == strings.ToLower(kind)+"s" && event.RequestReceivedTimestamp.After(since) {
			tr.t.Errorf("the operator wrote a terminating object: %s", event.String())
		}
	}
}

// TestNamespace deletes the namespace while the operator works in it, and creates it again with
// a Function of the same name.
func TestNamespace(t *testing.T) {
	enter(t)
	var over []*trial
	defer func() { quiet(t, over) }()
	want := named("create").reference(t)
	moments := []int{0, 3}
	if *full {
		moments = []int{0, 1, 2, 3} // three objects and the first status; the order of later writes varies
	}
	for _, k := range moments {
		t.Run(fmt.Sprintf("before %d %s", k+1, want.writes[k].Verb+" "+want.writes[k].Resource), func(t *testing.T) {
			tr := newTrial(t)
			defer func() { table.note(t, "namespace", true, tr) }()
			n := 0
			namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: tr.ns}}
			tr.duringWhich(func(r wire.Request) bool {
				if r.Write() && r.Resource != "events" {
					n++
				}
				return n == k+1
			}, func(tr *trial) { tr.create() }, func(string) {
				tr.must(world(t).client.Delete(t.Context(), namespace))
			})
			tr.deleted, tr.decoy = true, nil
			tr.await(func() error {
				err := world(t).client.Get(t.Context(), client.ObjectKeyFromObject(namespace), &corev1.Namespace{})
				if err == nil {
					return errors.New("the namespace is still there")
				}
				return client.IgnoreNotFound(err)
			})
			again := tr.again()
			over = append(over, again)
			again.begin()
			again.create()
			again.await(func() error { return again.whole().like(want.state) })
			again.done = time.Now()
			tr.begun, tr.done = again.begun, again.done
			again.untouched()
			again.truth()
			world(t).unbroken(t)
			if refused := world(t).audit.forbidden(t, tr.ns); len(refused) > 30 {
				t.Errorf("%d requests of the operator were forbidden while the namespace was terminating", len(refused))
			}
		})
	}
}

// again returns a new trial in a namespace of the same name.
func (tr *trial) again() *trial {
	tr.t.Helper()
	again := &trial{t: tr.t, ns: tr.ns, deleted: true}
	tr.must(world(tr.t).client.Create(tr.t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: tr.ns}}))
	again.lay()
	return again
}
