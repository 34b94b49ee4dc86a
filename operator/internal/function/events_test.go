package function_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/apiservertest"
	"goless.io/operator/internal/desired"
)

// Each change of a serving function is reported by one event. That it is ready again afterwards is
// reported only if the spec has changed.
func TestEventsOfAFunctionThatServes(t *testing.T) {
	fn := template("lively")
	fn.Namespace = apiservertest.NewNamespace(t, cluster)
	fn.Spec.EnvFrom = []v1beta1.EnvFromSource{{ConfigMapRef: &v1beta1.ObjectRef{Name: "settings"}}}
	settings := configMap(t, fn, "settings", map[string]string{"A": "1"})
	fn = create(t, "lively", func(new *v1beta1.Function) { new.Namespace, new.Spec = fn.Namespace, fn.Spec })
	hash := values(t, fn, "")
	serve(t, fn)
	d := await(t, fn, fn.Name, &appsv1.Deployment{}, nil)
	pod := startPod(t, d)

	setFunction(t, pod, corev1.ContainerStatus{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}}, RestartCount: 1, LastTerminationState: corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{ExitCode: 2, FinishedAt: metav1.Now(), Message: "panic: out of luck\n\ngoroutine 9 [running]:\nmain.x()\n\tgoless.io/function/handler/handler.go:7 +0x2e\n"},
	}})
	unready(t, fn)
	awaitReady(t, fn, v1beta1.ReasonRollingOut)
	serve(t, fn)
	tells(t, fn, "Normal Serving", "Warning Restarted: replica lively-1 exited with code 2 and is restarted: panic: out of luck at handler.go:7")

	settings.Data["A"] = "2"
	overwrite(t, settings)
	values(t, fn, hash)
	awaitReady(t, fn, v1beta1.ReasonBuilding)
	serve(t, fn)
	tells(t, fn, "Normal ReferenceChanged: ConfigMap \"settings\" changed; rolling out the function", "Normal Serving", "Warning Restarted")

	change(t, fn, func(fn *v1beta1.Function) { fn.Spec.Env = []v1beta1.EnvVar{{Name: "B", Value: "3"}} })
	awaitReady(t, fn, v1beta1.ReasonBuilding)
	serve(t, fn)
	eventually(t, "change of the Function reported", func() bool { return count(told(t, fn), "Normal Serving") == 2 })
}

// Each restart is reported by an event with its cause, also if the Function has not changed in
// between.
func TestEventsOfRestarts(t *testing.T) {
	fn := create(t, "unlucky", func(*v1beta1.Function) {})
	serve(t, fn)
	awaitReady(t, fn, v1beta1.ReasonServing)
	d := await(t, fn, fn.Name, &appsv1.Deployment{}, nil)
	pod := startPod(t, d)
	started := metav1.Now().Rfc3339Copy()
	for i, cause := range []string{"out of luck", "out of patience", "out of memory"} {
		setFunction(t, pod, corev1.ContainerStatus{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: started}}, Ready: true, LastTerminationState: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{ExitCode: 2, FinishedAt: metav1.NewTime(started.Add(time.Duration(i+1) * time.Second)), Message: "panic: " + cause + "\n"},
		}})
		eventually(t, "restart reported", func() bool { return count(told(t, fn), "Warning Restarted") == i+1 })
	}
	tells(t, fn, "Normal Serving",
		"Warning Restarted: replica unlucky-1 exited with code 2 and is restarted: panic: out of luck",
		"Warning Restarted: replica unlucky-1 exited with code 2 and is restarted: panic: out of memory",
		"Warning Restarted: replica unlucky-1 exited with code 2 and is restarted: panic: out of patience")
}

// A problem that prevents pods from starting is reported by one event, however often the status is
// updated.
func TestEventOfAPodProblem(t *testing.T) {
	fn := create(t, "hindered", func(*v1beta1.Function) {})
	d := await(t, fn, fn.Name, &appsv1.Deployment{}, ownedByApply)
	pod := startPod(t, d)
	setFunction(t, pod, corev1.ContainerStatus{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(time.Now().Add(-2 * time.Minute))}}})
	for range 3 {
		unready(t, fn)
		eventually(t, "Ready reports the start time", func() bool {
			return strings.Contains(awaitReady(t, fn, v1beta1.ReasonRollingOut).Message, "a replica has been running since ")
		})
		change(t, fn, func(fn *v1beta1.Function) { fn.Spec.Replicas = new(*fn.Spec.Replicas + 1) })
	}
	tells(t, fn, "Warning NotServing: a replica has been running since ")
}

// A message that exceeds the maximum length of an event is truncated.
func TestEventOfALongMessage(t *testing.T) {
	fn := create(t, "long", func(fn *v1beta1.Function) { fn.Spec.ServiceAccountName = strings.Repeat("a", 253) })
	message := awaitReady(t, fn, v1beta1.ReasonInvalidSpec).Message
	if len(message) <= 1024 {
		t.Fatalf("message is too short: %s", message)
	}
	tells(t, fn, "Warning InvalidSpec: "+message[:1021]+"...")
}

// tells waits until the events of a Function start with these texts, once each, and fails the test
// if there are other events.
func tells(t *testing.T, fn *v1beta1.Function, want ...string) {
	t.Helper()
	eventually(t, "events recorded: "+strings.Join(want, ", "), func() bool { return len(told(t, fn)) >= len(want) })
	got := told(t, fn)
	for i := range min(len(got), len(want)) {
		got[i] = got[i][:min(len(got[i]), len(want[i]))]
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the events differ (-want +got):\n%s", diff)
	}
}

// told returns the events of a Function, repeated as often as each was recorded. Events about its
// objects are ignored: an API server reports each Service whose IP address is not in its allocation
// map yet.
func told(t *testing.T, fn *v1beta1.Function) []string {
	t.Helper()
	var list eventsv1.EventList
	if err := cluster.List(t.Context(), &list, client.InNamespace(fn.Namespace)); err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range list.Items {
		if e.Regarding.UID != fn.UID {
			continue
		}
		times := 1
		if e.Series != nil {
			times = int(e.Series.Count)
		}
		all = append(all, slices.Repeat([]string{e.Type + " " + e.Reason + ": " + e.Note}, times)...)
	}
	slices.Sort(all)
	return all
}

func count(all []string, beginning string) (n int) {
	for _, one := range all {
		if strings.HasPrefix(one, beginning) {
			n++
		}
	}
	return n
}

// unready sets the status of a Deployment without ready replicas.
func unready(t *testing.T, fn *v1beta1.Function) {
	t.Helper()
	d := await(t, fn, fn.Name, &appsv1.Deployment{}, nil)
	before := client.MergeFrom(d.DeepCopy())
	d.Status = appsv1.DeploymentStatus{ObservedGeneration: d.Generation, Replicas: 1, UpdatedReplicas: 1}
	if err := cluster.Status().Patch(t.Context(), d, before); err != nil {
		t.Fatal(err)
	}
}

// setFunction sets the status of a pod whose source has compiled.
func setFunction(t *testing.T, pod *corev1.Pod, function corev1.ContainerStatus) {
	t.Helper()
	before := client.MergeFrom(pod.DeepCopy())
	function.Name = desired.FunctionContainer
	pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: desired.BuildContainer, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: `{"reason":"Built"}`}}}}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{function}
	if err := cluster.Status().Patch(t.Context(), pod, before); err != nil {
		t.Fatal(err)
	}
}
