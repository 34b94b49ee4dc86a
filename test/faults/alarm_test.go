package faults

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"goless.io/operator/api/v1beta1"
)

// lasting is how long a state must have existed before the operator must report it. A reconcile
// can take seconds on two cores.
const lasting = 10 * time.Second

// alarm is a period in which a Function reports that it is not ready although nothing is
// missing: its Deployment matches the spec, and the Service and the sources exist. The status
// may have been computed before the last of these was written, so an alarm is an error only if
// the operator does not correct it: see noFalseAlarm.
type alarm struct {
	said     *v1beta1.Function
	from, to time.Time // to is zero while the alarm lasts
}

func (a alarm) String() string {
	ready := meta.FindStatusCondition(a.said.Status.Conditions, v1beta1.ConditionReady)
	return fmt.Sprintf("version %s of the Function says %s (%s) while nothing is missing", a.said.ResourceVersion, ready.Reason, ready.Message)
}

// noFalseAlarm fails the test if the operator read the Function during an alarm, after the
// state had existed for lasting, and did not correct it. The order of versions in etcd
// determines which ones existed at the same time; the clock is only used for lasting.
func (tr *trial) noFalseAlarm() {
	tr.t.Helper()
	var all []version
	for _, kind := range []string{"Function", "Deployment", "Service", "ConfigMap"} {
		all = append(all, world(tr.t).witness.ofKind(kind, tr.ns)...)
	}
	found, err := alarms(all)
	tr.must(err)
	margin := stretched(lasting)
	for _, a := range found {
		if a.to.IsZero() {
			a.to = time.Now()
		}
		for _, request := range world(tr.t).wire.Requests(tr.from) {
			if request.Namespace == tr.ns && request.Time.After(pauses.after(a.from, margin)) && pauses.after(request.Time, margin).Before(a.to) {
				tr.t.Errorf("%s: %s, for %s, although the operator sent %s meanwhile", tr.ns, a, a.to.Sub(a.from), request)
				break
			}
		}
	}
}

// alarms returns the alarms of a Function, given the versions of all objects of its namespace.
func alarms(all []version) (found []alarm, err error) {
	slices.SortStableFunc(all, func(a, b version) int { return cmp.Compare(number(a), number(b)) })
	var now scene
	for _, v := range all {
		if err := now.add(v); err != nil {
			return nil, err
		}
		open := len(found) > 0 && found[len(found)-1].to.IsZero()
		switch alarming := now.alarming(); {
		case alarming && !open:
			found = append(found, alarm{said: now.fn, from: v.seen})
		case !alarming && open:
			found[len(found)-1].to = v.seen
		}
	}
	return found, nil
}

// scene is the state of a namespace at one time.
type scene struct {
	fn         *v1beta1.Function
	deployment *appsv1.Deployment
	owned      map[string]metav1.OwnerReference // the controllers of Services and ConfigMaps, by kind and name
}

// add makes a version of an object the latest one.
func (s *scene) add(v version) error {
	key := v.GetKind() + "/" + v.GetName()
	if s.owned == nil {
		s.owned = map[string]metav1.OwnerReference{}
	}
	delete(s.owned, key)
	if ref := metav1.GetControllerOf(v); ref != nil && !v.deleted {
		s.owned[key] = *ref
	}
	if v.GetName() != subject {
		return nil
	}
	convert := runtime.DefaultUnstructuredConverter.FromUnstructured
	switch v.GetKind() {
	case "Function":
		s.fn = nil
		if !v.deleted {
			s.fn = &v1beta1.Function{}
			return convert(v.Object, s.fn)
		}
	case "Deployment":
		s.deployment = nil
		if !v.deleted {
			s.deployment = &appsv1.Deployment{}
			return convert(v.Object, s.deployment)
		}
	}
	return nil
}

// alarming reports whether the Function reports that its latest spec is not ready although
// nothing is missing. Whether a spec is invalid cannot be derived from its Deployment.
func (s *scene) alarming() bool {
	if s.fn == nil || s.fn.DeletionTimestamp != nil || s.deployment == nil || !complete(s.fn, s.deployment) {
		return false
	}
	if want := *s.fn.Spec.Replicas; s.deployment.Status.Replicas != want || s.deployment.Status.AvailableReplicas != want {
		return false // a replica is not ready; only the operator can evaluate that
	}
	ready := meta.FindStatusCondition(s.fn.Status.Conditions, v1beta1.ConditionReady)
	if ready == nil || ready.Status == metav1.ConditionTrue || ready.ObservedGeneration != s.fn.Generation || ready.Reason == v1beta1.ReasonInvalidSpec {
		return false
	}
	needed := []string{"Service/" + s.fn.ServiceName()}
	for _, volume := range s.deployment.Spec.Template.Spec.Volumes {
		if volume.ConfigMap != nil {
			needed = append(needed, "ConfigMap/"+volume.ConfigMap.Name)
		}
	}
	return !slices.ContainsFunc(needed, func(key string) bool { return s.owned[key].UID != s.fn.UID })
}

// inOrder returns versions of the objects in the order of etcd, numbered from 1.
func inOrder(t *testing.T, objects []runtime.Object) (all []version) {
	t.Helper()
	for i, object := range objects {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
		if err != nil {
			t.Fatal(err)
		}
		v := version{Unstructured: &unstructured.Unstructured{Object: content}, seen: time.Unix(int64(i+1), 0)}
		v.SetKind(reflect.TypeOf(object).Elem().Name())
		v.SetResourceVersion(strconv.Itoa(i + 1))
		all = append(all, v)
	}
	return all
}

func TestAlarms(t *testing.T) {
	fn := &v1beta1.Function{ObjectMeta: metav1.ObjectMeta{Name: subject, UID: "f", Generation: 1}}
	fn.Spec.Function, fn.Spec.Replicas = first, new(int32(1))
	says := func(status metav1.ConditionStatus, reason string) *v1beta1.Function {
		said := fn.DeepCopy()
		said.Status.Conditions = []metav1.Condition{{Type: v1beta1.ConditionReady, Status: status, Reason: reason, ObservedGeneration: 1}}
		return said
	}
	owned := metav1.ObjectMeta{Name: subject, OwnerReferences: []metav1.OwnerReference{{UID: "f", Controller: new(true)}}}
	deployment := func(available int32) *appsv1.Deployment {
		d := &appsv1.Deployment{ObjectMeta: *owned.DeepCopy()}
		d.Spec.Replicas = new(int32(1))
		d.Spec.Template.Labels = map[string]string{"goless.io/revision": sourceRevision(first)}
		d.Status = appsv1.DeploymentStatus{Replicas: 1, UpdatedReplicas: 1, ReadyReplicas: available, AvailableReplicas: available}
		return d
	}
	service := &corev1.Service{ObjectMeta: owned}
	foreign := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: subject}}
	waits, fails, isReady := says("False", v1beta1.ReasonRollingOut), says("False", v1beta1.ReasonApplyFailed), says("True", v1beta1.ReasonServing)
	for name, c := range map[string]struct {
		objects []runtime.Object // in the order of etcd, from 1 on
		want    string           // the versions from and to which there are alarms
	}{
		"Usual":     {[]runtime.Object{fn, service, deployment(0), waits, deployment(1), isReady}, "5-6 "},
		"Lasting":   {[]runtime.Object{service, deployment(1), fails}, "3-0 "},
		"Ready":     {[]runtime.Object{service, deployment(1), isReady}, ""},
		"Crash":     {[]runtime.Object{service, deployment(1), isReady, deployment(0), waits}, ""},
		"Invalid":   {[]runtime.Object{service, deployment(1), says("False", v1beta1.ReasonInvalidSpec)}, ""},
		"NoService": {[]runtime.Object{deployment(1), fails, service, fails}, "3-0 "},
		"Foreign":   {[]runtime.Object{foreign, deployment(1), fails}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			found, err := alarms(inOrder(t, c.objects))
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			for _, a := range found {
				got += fmt.Sprintf("%d-%d ", a.from.Unix(), max(0, a.to.Unix()))
			}
			if got != c.want {
				t.Errorf("alarms %q, want %q", got, c.want)
			}
		})
	}
}
