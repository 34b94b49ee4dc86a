package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
)

// buildName is the name of the build service's objects in deploy/.
const buildName = "goless-build"

// buildPods returns the pods of the build service that are not terminating.
func buildPods(ctx context.Context) ([]corev1.Pod, error) {
	return systemPods(ctx, buildName)
}

// built fails the test unless the build service has compiled n times for the namespace.
func (ns *namespace) built(n int) {
	ns.t.Helper()
	pods, err := buildPods(ns.t.Context())
	if err != nil {
		ns.t.Fatal(err)
	}
	var builds []string
	for _, pod := range pods {
		log, err := kube.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{}).DoRaw(ns.t.Context())
		if err != nil {
			ns.t.Fatal(err)
		}
		for line := range bytes.Lines(log) {
			var entry struct{ Msg, Namespace, Reason string }
			if err := json.Unmarshal(line, &entry); err != nil {
				ns.t.Fatalf("%v: %s", err, line)
			}
			if entry.Msg == "build" && entry.Namespace == ns.name && entry.Reason != "Cancelled" {
				builds = append(builds, pod.Name+": "+string(line))
			}
		}
	}
	if len(builds) != n {
		ns.t.Errorf("there were %d builds, want %d:\n%s", len(builds), n, strings.Join(builds, ""))
	}
}

// The tests of this file disturb the build service, so they are not parallel.

// Without the build service, running functions are not affected, and what needs it waits and
// reports that. When it is back, without its data, all functions recover automatically.
func TestBuildServiceIsDown(t *testing.T) {
	ns := newNamespace(t)
	running := ns.ready(ns.apply(shared("running", answering("steady"), replicas(2))))
	ns.answers(running, "steady")
	stop := ns.load(running)
	ns.scaleBuild(0)
	defer ns.scaleBuild(2)

	waiting := ns.apply(shared("waiting", answering("at last")))
	ns.becomes(waiting, "waiting for the build service", func(fn *v1beta1.Function) bool {
		ready := condition(fn, v1beta1.ConditionReady)
		return ready.Reason == v1beta1.ReasonBuilding && strings.Contains(ready.Message, "build service")
	})
	ns.has(get(ns, "waiting", &v1beta1.Function{}), v1beta1.ConditionBuilt, "Unknown", v1beta1.ReasonBuilding)
	ns.fewPodsOf(waiting, 0)

	// A change without a compilation is rolled out, but the binary is missing.
	lost := ns.readyPods(running, "")[0]
	if err := cluster.Delete(t.Context(), &lost); err != nil {
		t.Fatal(err)
	}
	gone(ns, "the deleted pod is gone", func(pod *corev1.Pod) bool { return pod.UID == lost.UID })
	ns.eventually("the new pod logs that it waits for the binary", func() error { return ns.waitsForBinary(running) })

	ns.scaleBuild(2)
	running = ns.ready(running)
	ns.answers(ns.ready(waiting), "at last")
	stop()
	ns.alwaysServed(running)
}

// waitsForBinary returns nil if the log of a pod of a Function reports that it waits for the
// binary.
func (ns *namespace) waitsForBinary(fn *v1beta1.Function) error {
	for _, pod := range ns.pods(fn) {
		if podReady(pod) != nil {
			continue
		}
		log, err := kube.CoreV1().Pods(ns.name).GetLogs(pod.Name, &corev1.PodLogOptions{}).DoRaw(ns.t.Context())
		if err != nil {
			return err
		}
		if strings.Contains(string(log), "cannot reach the build service") {
			return nil
		}
	}
	return fmt.Errorf("no pod does")
}

// scaleBuild changes the number of replicas of the build service, and waits for them.
func (ns *namespace) scaleBuild(n int) {
	ns.t.Helper()
	// The context of the test may have ended when this is called by defer.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ns.t.Context()), patience)
	defer cancel()
	_, err := kubectl(ctx, "-n", systemNamespace, "scale", "deployment/"+buildName, fmt.Sprintf("--replicas=%d", n))
	if err == nil {
		_, err = kubectl(ctx, "-n", systemNamespace, "rollout", "status", "deployment/"+buildName, "--timeout=3m")
	}
	if err == nil && n == 0 {
		_, err = kubectl(ctx, "-n", systemNamespace, "wait", "--for=delete", "pod", "--selector=app.kubernetes.io/name="+buildName, "--timeout=3m")
	}
	if err != nil {
		ns.t.Fatal(err)
	}
}

// When the seed of the keys changes, a running function is not affected, and a function whose
// pod is lost gets a pod with the new keys.
func TestBuildSeedIsReplaced(t *testing.T) {
	ns := newNamespace(t)
	fn := ns.ready(ns.apply(shared("trusting", answering("trusted"), replicas(2))))
	ns.answers(fn, "trusted")
	stop := ns.load(fn)
	before := uids(ns.pods(fn))

	secret := &corev1.Secret{}
	secret.Name, secret.Namespace = buildName, systemNamespace
	if err := cluster.Delete(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{operatorName, buildName} {
		if _, err := kubectl(t.Context(), "-n", systemNamespace, "rollout", "restart", "deployment/"+name); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{operatorName, buildName} {
		if _, err := kubectl(t.Context(), "-n", systemNamespace, "rollout", "status", "deployment/"+name, "--timeout=3m"); err != nil {
			t.Fatal(err)
		}
	}
	ns.operators()
	if diff := strings.Join(before, " "); diff != strings.Join(uids(ns.pods(fn)), " ") {
		t.Errorf("the pods were replaced: %s before, %s now", before, uids(ns.pods(fn)))
	}
	lost := ns.readyPods(fn, "")[0]
	if err := cluster.Delete(t.Context(), &lost); err != nil {
		t.Fatal(err)
	}
	gone(ns, "the deleted pod is gone", func(pod *corev1.Pod) bool { return pod.UID == lost.UID })
	fn = ns.ready(fn)
	stop()
	ns.answers(fn, "trusted")
	ns.alwaysServed(fn)
}

// fewPodsOf fails the test if a Function has more pods than the limit.
func (ns *namespace) fewPodsOf(fn *v1beta1.Function, most int) {
	ns.t.Helper()
	if pods := ns.pods(fn); len(pods) > most {
		ns.t.Errorf("%s has %d pods, and needs at most %d", fn.Name, len(pods), most)
	}
}

// systemPods returns the pods of a component of Goless that are not terminating.
func systemPods(ctx context.Context, name string) ([]corev1.Pod, error) {
	var list corev1.PodList
	err := cluster.List(ctx, &list, client.InNamespace(systemNamespace), client.MatchingLabels{"app.kubernetes.io/name": name})
	var pods []corev1.Pod
	for _, pod := range list.Items {
		if pod.DeletionTimestamp == nil {
			pods = append(pods, pod)
		}
	}
	return pods, err
}
