package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
)

// The tests of this file disturb the operator, so none of them is parallel.

// Whenever the operator is killed during a rollout, the rollout ends as it
// should, nothing is made twice, and no request notices.
func TestOperatorKilledDuringRollout(t *testing.T) {
	ns := newNamespace(t)
	fn := ns.ready(ns.apply(function("steady", answering("0"), replicas(2))))
	ns.answers(fn, "0")
	stop := ns.load(fn)

	moments := []struct {
		name    string
		reached func(*v1beta1.Function) bool
	}{
		{"as soon as the source has changed", func(*v1beta1.Function) bool { return true }},
		{"once the new source is written", func(fn *v1beta1.Function) bool {
			return !first(ns.witness, func(c *corev1.ConfigMap) bool { return c.Data["handler.go"] == fn.Spec.Function }).IsZero()
		}},
		{"once the new pods are there", func(fn *v1beta1.Function) bool {
			for _, c := range versions[*corev1.ConfigMap](ns.witness) {
				if c.Data["handler.go"] == fn.Spec.Function {
					return slices.ContainsFunc(ns.pods(fn), func(pod *corev1.Pod) bool {
						return pod.Labels[revisionLabel] == c.Labels[revisionLabel]
					})
				}
			}
			return false
		}},
	}
	for i, moment := range moments {
		answer := fmt.Sprint(i + 1)
		fn = ns.change(fn, source(answering(answer)))
		ns.until(moment.name, func() bool { return moment.reached(fn) })
		ns.killOperator()
		fn = ns.ready(fn)
		ns.answers(fn, answer)
	}
	seen := stop()

	if len(seen.Answers) != len(moments)+1 {
		t.Errorf("the answers were %v", seen.Answers)
	}
	ns.alwaysServed(fn)
	ns.nothingTwice()
	gone(ns, "only the latest source is kept", func(c *corev1.ConfigMap) bool {
		return of(fn, c) && c.Name != fn.Name+"-"+fn.Status.LatestRevision
	})
}

// nothingTwice fails the test if an object of a Function was made anew, or one
// revision got two ReplicaSets.
func (ns *namespace) nothingTwice() {
	ns.t.Helper()
	made := map[string]map[types.UID]bool{}
	for _, s := range ns.witness.all() {
		key := ""
		switch object := s.object.(type) {
		case *appsv1.Deployment, *corev1.Service, *corev1.ConfigMap:
			key = fmt.Sprintf("%T %s", object, object.GetName())
		case *appsv1.ReplicaSet:
			key = "ReplicaSet of revision " + object.Labels[revisionLabel]
		default:
			continue
		}
		if made[key] == nil {
			made[key] = map[types.UID]bool{}
		}
		made[key][s.object.GetUID()] = true
	}
	for key, uids := range made {
		if len(uids) > 1 {
			ns.t.Errorf("%s was made %d times", key, len(uids))
		}
	}
}

// Of two replicas one works; when it is killed, work goes on.
func TestOperatorLeaderIsReplaced(t *testing.T) {
	ns := newNamespace(t)
	fn := ns.ready(ns.apply(function("followed", answering("one leader"))))
	pods := ns.operators(2)

	ns.eventually("of two replicas the one works that leads", func() error {
		pods = ns.operators(2)
		for i, pod := range pods {
			log, err := logOf(t.Context(), &pod, false)
			if err != nil {
				return err
			}
			if works, leads := strings.Contains(log, `"Starting workers","controller":"function"`), i == 0; works != leads {
				return fmt.Errorf("pod %s works: %t, leads: %t", pod.Name, works, leads)
			}
		}
		return nil
	})

	ns.kill(&pods[0])
	fn = ns.change(fn, source(answering("another leader")))
	fn = ns.ready(fn)
	ns.answers(fn, "another leader")
	if now := ns.operators(2); now[0].Name == pods[0].Name {
		t.Errorf("pod %s still leads after it was killed", now[0].Name)
	}
	ns.nothingTwice()

	defer ns.scaleOperator(2)
	ns.scaleOperator(1)
	fn = ns.ready(ns.change(fn, source(answering("one again"))))
	ns.answers(fn, "one again")
}

// Nothing is written about Functions that do not change, and a restart of the
// operator is no reason to.
func TestOperatorRestartWritesNothing(t *testing.T) {
	const silence = 10 * time.Second
	ns, elsewhere := newNamespace(t, unadmitted), newNamespace(t)
	serving := ns.apply(function("serving", answering("quiet"), replicas(2)))
	stopped := ns.apply(function("stopped", answering("quiet"), replicas(0)))
	refused := ns.apply(function("refused", "package handlers"))
	ns.ready(serving)
	ns.ready(stopped)
	ns.stalled(refused, v1beta1.ReasonInvalidSource)
	before := ns.settled()

	for _, pod := range ns.operators(2) {
		if err := cluster.Delete(t.Context(), &pod); err != nil {
			t.Fatal(err)
		}
	}
	over := time.After(silence)
	ns.operators(2)
	elsewhere.ready(elsewhere.apply(function("canary", answering("the operator works"))))
	<-over // there is nothing to await: nothing may happen

	ns.wroteNothing(len(before))
}

// wroteNothing fails the test if the operator wrote anything since the record had
// so many sightings. What it writes because a busy kubelet lost sight of a pod is
// not meant.
func (ns *namespace) wroteNothing(since int) {
	ns.t.Helper()
	record := ns.witness.all()
	written := map[types.UID]string{}
	for i, s := range record {
		now := operatorsShare(s.object)
		before, seen := written[s.object.GetUID()]
		if written[s.object.GetUID()] = now; i < since || (seen && before == now) {
			continue
		}
		if _, isFunction := s.object.(*v1beta1.Function); isFunction && slices.ContainsFunc(record[since:i], isPod) {
			ns.t.Logf("a pod changed, and then the status of %s: %s", s.object.GetName(), now)
			continue
		}
		ns.t.Errorf("%T %s was written:\n%s", s.object, s.object.GetName(), yamlOf(s.object))
	}
}

func isPod(s sighting) bool {
	_, ok := s.object.(*corev1.Pod)
	return ok
}

// operatorsShare is what tells a write of the operator: the times at which it
// wrote, and of a Function, the status, since the times are in whole seconds.
func operatorsShare(object client.Object) string {
	var share strings.Builder
	for _, f := range object.GetManagedFields() {
		if f.Manager == operatorName {
			fmt.Fprintln(&share, f.Subresource, f.Time, f.FieldsV1)
		}
	}
	if fn, ok := object.(*v1beta1.Function); ok {
		share.WriteString(yamlOf(fn.Status))
	}
	return share.String()
}

// settled waits until nothing has happened for a while and returns what did.
func (ns *namespace) settled() []sighting {
	ns.t.Helper()
	deadline := time.After(patience)
	for {
		select {
		case <-ns.witness.next():
		case <-time.After(2 * time.Second):
			return ns.witness.all()
		case <-deadline:
			ns.t.Fatalf("waited %s in vain until nothing happens", patience)
		}
	}
}
