package autoscale

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/activator/backend"
)

var name = types.NamespacedName{Namespace: "default", Name: "hello"}

// scalerTest evaluates one function, which scales to between 1 and 9 replicas with a target of 10
// requests. It plays the role of the API server and of the pods, with the clock of its bubble.
type scalerTest struct {
	t      *testing.T
	scaler *Scaler

	replicas int32 // of the Deployment
	pods     int   // all are ready
	failure  error // of attempts to scale

	reads, attempts int // of the Deployment
}

// inBubble runs a test with a fake clock. Its function has a pod for each replica, and no requests.
func inBubble(t *testing.T, replicas int32, test func(*scalerTest)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &scalerTest{t: t, replicas: replicas, pods: int(replicas)}
		c := interceptor.NewClient(nil, interceptor.Funcs{Get: s.get, List: s.list, SubResourcePatch: s.scale})
		s.scaler = New(c, c, backend.Lister{Reader: c}, NewMetrics(prometheus.NewRegistry()), func() bool { return true })
		s.report(0, nil)
		test(s)
	})
}

func owner(apiVersion, kind string) []metav1.OwnerReference {
	return []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: name.Name, UID: "1", Controller: new(true)}}
}

func (s *scalerTest) get(_ context.Context, _ client.WithWatch, _ client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	object.SetNamespace(name.Namespace)
	object.SetName(name.Name)
	object.SetOwnerReferences(owner(v1beta1.GroupVersion.String(), "Function"))
	switch object := object.(type) {
	case *corev1.Service:
		object.Labels = map[string]string{v1beta1.FunctionLabel: name.Name}
		object.Annotations = map[string]string{v1beta1.ScalingAnnotation: backend.Scaling{Min: 1, Max: 9, Requests: 10}.String()}
	case *appsv1.Deployment:
		s.reads++
		object.Spec.Replicas = new(s.replicas)
	}
	return nil
}

func (s *scalerTest) list(_ context.Context, _ client.WithWatch, list client.ObjectList, _ ...client.ListOption) error {
	for i := range s.pods {
		list := list.(*corev1.PodList)
		list.Items = append(list.Items, corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{UID: uid(i), OwnerReferences: owner("apps/v1", "ReplicaSet")},
			Status:     corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
		})
	}
	return nil
}

func (s *scalerTest) scale(_ context.Context, _ client.Client, _ string, object client.Object, patch client.Patch, _ ...client.SubResourcePatchOption) error {
	s.attempts++
	if s.failure != nil {
		return s.failure
	}
	data, err := patch.Data(object)
	if err != nil {
		return err
	}
	var d appsv1.Deployment
	err = json.Unmarshal(data, &d)
	s.replicas = *d.Spec.Replicas
	return err
}

func uid(pod int) types.UID { return types.UID(fmt.Sprint(pod)) }

// report sets what the polls of the pods return: equal parts of a number of requests in flight, or
// an error. The pods are not polled, because the clock stops while a goroutine waits for a network.
func (s *scalerTest) report(requests float64, err error) {
	f := s.scaler.function(backend.Backend{Service: name, Function: name})
	for i := range s.pods {
		f.histories[uid(i)] = &podHistory{average: requests / float64(s.pods), measured: true, err: err, next: time.Now().Add(24 * time.Hour)}
	}
}

// evaluate returns the pause until the next evaluation.
func (s *scalerTest) evaluate() time.Duration {
	s.t.Helper()
	result, err := s.scaler.Reconcile(ctrl.LoggerInto(s.t.Context(), logr.Discard()), reconcile.Request{NamespacedName: name})
	if err != nil {
		s.t.Fatal(err)
	}
	return result.RequeueAfter
}

// run evaluates the function for a time, and returns the pauses. The next evaluation is due then.
func (s *scalerTest) run(d time.Duration) (pauses []time.Duration) {
	s.t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); {
		pauses = append(pauses, s.evaluate())
		time.Sleep(pauses[len(pauses)-1])
	}
	return pauses
}

// expectProblem checks the result of Problem, and that each change of it was announced.
func (s *scalerTest) expectProblem(want string, changes int) {
	s.t.Helper()
	if got, _ := s.scaler.Problem(name); got != want || len(s.scaler.Changed) != changes {
		s.t.Errorf("problem %q after %d changes, want %q after %d", got, len(s.scaler.Changed), want, changes)
	}
}

// A failed attempt to scale is repeated after a pause that doubles up to a minute. It is reported
// after the third consecutive failure. A success resets both.
func TestScaleFails(t *testing.T) {
	inBubble(t, 1, func(s *scalerTest) {
		s.failure = errors.New("not at night")
		s.report(20, nil)
		pauses := s.run(4*time.Second + 8*time.Second)
		s.expectProblem("", 0)
		pauses = append(pauses, s.run(16*time.Second)...)
		s.expectProblem("scaling the Deployment to 2: not at night", 1)
		pauses = append(pauses, s.run(2*time.Minute)...)
		want := []time.Duration{4 * time.Second, 8 * time.Second, 16 * time.Second, 32 * time.Second, time.Minute, time.Minute}
		if !slices.Equal(pauses, want) {
			t.Errorf("pauses %v, want %v", pauses, want)
		}

		before := s.attempts
		s.evaluate()
		time.Sleep(59 * time.Second)
		if pause := s.evaluate(); pause != time.Second || s.attempts != before+1 {
			t.Errorf("an event has caused %d attempts; the next one is in %s", s.attempts-before-1, pause)
		}
		time.Sleep(time.Second)
		s.failure = nil
		if pause := s.evaluate(); pause != interval || s.replicas != 2 {
			t.Errorf("%d replicas after a success, and a pause of %s", s.replicas, pause)
		}
		s.expectProblem("", 2)
		time.Sleep(interval)
		s.failure = errors.New("not at night")
		s.report(90, nil)
		if pause := s.evaluate(); pause != 2*interval {
			t.Errorf("a pause of %s after the next failure", pause)
		}
		s.expectProblem("", 2)
	})
}

// At the first poll after a long pause, the load is unknown. That does not end a series of failures.
func TestScaleFailsAfterPauses(t *testing.T) {
	inBubble(t, 1, func(s *scalerTest) {
		s.failure = errors.New("not at night")
		for _, want := range []time.Duration{4 * time.Second, 8 * time.Second, 16 * time.Second} {
			s.report(20, nil)
			if pause := s.evaluate(); pause != want {
				t.Errorf("a pause of %s, want %s", pause, want)
			}
			time.Sleep(want)
			s.scaler.functions[name].histories[uid(0)].measured = false
			if pause := s.evaluate(); pause != interval {
				t.Errorf("a pause of %s while the load is unknown", pause)
			}
			time.Sleep(interval)
		}
		s.expectProblem("scaling the Deployment to 2: not at night", 1)
	})
}

// Functions without requests are evaluated less often.
func TestIdle(t *testing.T) {
	inBubble(t, 1, func(s *scalerTest) {
		for _, requests := range []float64{0, 0.1, 10, 0} {
			s.report(requests, nil)
			want := idleInterval
			if requests > 0 {
				want = interval
			}
			if pause := s.evaluate(); pause != want {
				t.Errorf("a pause of %s with %g requests, want %s", pause, requests, want)
			}
			time.Sleep(want)
		}
	})
}

// A conflict is not a failure. The Deployment is read again, and a scale-down does not wait for
// another five minutes.
func TestScaleConflicts(t *testing.T) {
	inBubble(t, 5, func(s *scalerTest) {
		s.run(downWindow)
		s.failure = apierrors.NewConflict(schema.GroupResource{}, name.Name, errors.New("changed"))
		s.reads = 0
		if pauses := s.run(5 * interval); len(pauses) != 5 || s.attempts != 5 || s.reads != 5 {
			t.Errorf("%d attempts and %d reads, want 5; pauses %v", s.attempts, s.reads, pauses)
		}
		s.expectProblem("", 1)
		s.report(50, nil) // no replica has to be removed, unless another client has added some
		if s.evaluate(); s.reads != 6 || s.attempts != 5 {
			t.Errorf("%d reads and %d attempts, want 6 and 5", s.reads, s.attempts)
		}
	})
}

// The Deployment is read every five minutes, every 30 seconds while the number of pods differs or it
// has no replicas, and once before a change.
func TestReads(t *testing.T) {
	for name, test := range map[string]struct {
		replicas    int32
		pods, reads int
	}{
		"Steady":  {3, 3, 12},
		"Missing": {3, 2, 120},
		"Extra":   {3, 4, 120},
		"Stopped": {0, 1, 120},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, test.replicas, func(s *scalerTest) {
				s.pods = test.pods
				s.report(30, nil)
				if s.run(time.Hour); s.reads != test.reads || s.attempts != 0 {
					t.Errorf("%d reads and %d attempts to scale in an hour, want %d and 0", s.reads, s.attempts, test.reads)
				}
			})
		})
	}
	inBubble(t, 3, func(s *scalerTest) {
		s.report(30, nil)
		s.run(time.Minute)
		s.report(50, nil)
		if s.run(rereadAfter); s.reads != 2 || s.replicas != 5 {
			t.Errorf("%d reads and %d replicas, want 2 and 5", s.reads, s.replicas)
		}
	})
}

// Replicas are removed after five minutes of low load. The time without knowledge of the load, or
// with fewer replicas, does not count.
func TestStabilization(t *testing.T) {
	for name, before := range map[string]func(*scalerTest){
		"NewLeader": func(*scalerTest) {},
		"OtherClient": func(s *scalerTest) {
			s.replicas, s.pods = 1, 1
			s.run(2 * downWindow)
			s.replicas, s.pods = 5, 5
			s.report(0, nil)
		},
		"Unknown": func(s *scalerTest) {
			s.report(50, nil)
			s.run(time.Minute)
			s.report(0, errors.New("no response"))
			s.run(2 * downWindow)
			s.report(0, nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 5, func(s *scalerTest) {
				before(s)
				if s.run(downWindow); s.attempts != 0 {
					t.Errorf("%d replicas within five minutes", s.replicas)
				}
				if s.evaluate(); s.replicas != 1 {
					t.Errorf("%d replicas after five minutes, want 1", s.replicas)
				}
			})
		})
	}
}
