package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
)

// The nodes of a cluster that was started with NODES=2. The first one runs the control plane.
const firstNode, secondNode = "goless", "goless-2"

// secondPort is the network interface of the first node that leads to the second one.
const secondPort = "node2"

// Replicas are spread over both nodes, and each node fetches the binaries.
func TestNeighbourTwoNodesSpread(t *testing.T) {
	ns := newNamespaceOfTwoNodes(t)
	var all []*v1beta1.Function
	for i := range 5 {
		all = append(all, ns.apply(function(fmt.Sprintf("spread-%d", i), answering("here"), replicas(2), little)))
	}
	for _, fn := range all {
		fn = ns.ready(fn)
		ns.answers(fn, "here")
		if on := ns.nodesOf(fn); len(on) != 2 {
			t.Errorf("the 2 replicas of %s run on %v", fn.Name, on)
		}
	}
	seen(t, "Replicas are spread, and both nodes fetch binaries.")
}

// Draining a node loses no request, with several replicas, and with one whose successor is ready
// within half of DRAIN_DELAY. Ten successors that start at once on a slow machine need longer than
// half of the default.
func TestNeighbourTwoNodesDrain(t *testing.T) {
	const functions, rate, delay = 10, 20, time.Minute
	ns := newNamespaceOfTwoNodes(t)
	spreadSystem(ns)
	all, urls := ns.onSecondNode(functions, func(i int) int32 { return 1 + int32(i%2) }, func(spec *v1beta1.FunctionSpec) {
		spec.Env = append(spec.Env, v1beta1.EnvVar{Name: "DRAIN_DELAY", Value: delay.String()})
	})
	load := ns.loadOf(caller, rate, urls...)
	load.sent(10 * rate)
	t.Cleanup(func() { uncordon(t) })
	if _, err := kubectl(t.Context(), "drain", secondNode, "--delete-emptydir-data", "--timeout="+patience.String()); err != nil {
		t.Error(err)
	}
	sent, err := load.count()
	if err != nil {
		t.Fatal(err)
	}
	load.sent(sent + 20*rate)
	result := load.stop()
	if result.Failures > 0 {
		t.Errorf("%d of %d requests failed: %v", result.Failures, result.Requests, result.Errors)
	}
	for _, fn := range all {
		fn = ns.ready(get(ns, fn.Name, &v1beta1.Function{}))
		if on := ns.nodesOf(fn); on[secondNode] > 0 {
			t.Errorf("%s runs on %v after the drain", fn.Name, on)
		}
	}
	seen(t, fmt.Sprintf("While a node is drained, no request fails: %d functions with `DRAIN_DELAY` %s receive %d requests per second.", functions, delay, rate))
}

// A function falls asleep and wakes while the kube-proxy of a node is 10 seconds late.
func TestNeighbourTwoNodesLateProxy(t *testing.T) {
	const functions, late = 10, 10 * time.Second
	ns := newNamespaceOfTwoNodes(t)
	spreadSystem(ns)
	all, _ := ns.onSecondNode(functions, func(i int) int32 { return 1 + int32(i%2) })
	for _, fn := range all {
		ns.change(fn, sleeping)
	}
	delay := func() {
		pause(t, firstNode)
		time.Sleep(late)
		resume(t, firstNode)
	}
	for range 2 {
		for _, fn := range all {
			ns.asleep(get(ns, fn.Name, &v1beta1.Function{}))
		}
		// kube-proxy is late for longer than a pod that terminates serves.
		gone(ns, "their pods have ended", func(pod *corev1.Pod) bool { return pod.Labels[functionLabel] != "" })
		pause(t, firstNode)
		answerIn(t, all, "woken while kube-proxy is late", late)
		answerIn(t, all, "awake while kube-proxy is late", late)
		resume(t, firstNode)
		var group sync.WaitGroup
		for _, fn := range all {
			group.Go(func() {
				if err := ns.fallsAsleep(fn); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
		group.Go(delay)
		answerIn(t, all, "falling asleep while kube-proxy is late", 2*late)
		group.Wait()
	}
	seen(t, "Functions fall asleep and wake without a failed request while kube-proxy of a node is 10 seconds late.")
}

// answerIn calls functions, distributed over a time, and fails the test unless each answers.
func answerIn(t *testing.T, all []*v1beta1.Function, when string, duration time.Duration) {
	t.Helper()
	var group sync.WaitGroup
	for i, fn := range all {
		group.Go(func() {
			time.Sleep(duration * time.Duration(i) / time.Duration(len(all)))
			r, err := caller.call(t.Context(), http.MethodGet, url(fn), "")
			if err != nil || r.Status != http.StatusOK || r.Body != "here" {
				t.Errorf("%s: %s answers %d %q %s (%v)", fn.Name, when, r.Status, r.Body, r.Error, err)
			}
		})
	}
	group.Wait()
}

// The functions of a node that vanishes answer again.
func TestNeighbourTwoNodesLost(t *testing.T) {
	const functions = 10
	ns := newNamespaceOfTwoNodes(t)
	spreadSystem(ns)
	all, _ := ns.onSecondNode(functions, func(int) int32 { return 1 })
	asleep := ns.apply(function("asleep", answering("here"), sleeping, little))
	ns.asleep(ns.ready(asleep))

	t.Cleanup(func() { connectNode(t, true) })
	connectNode(t, false)
	lost := time.Now()
	var group sync.WaitGroup
	var mu sync.Mutex
	var longest time.Duration
	for _, fn := range append(all, asleep) {
		group.Go(func() {
			again := ns.untilAnswers(fn, lost)
			t.Logf("%s answers %s after its node was lost", fn.Name, again.Round(time.Second))
			mu.Lock()
			defer mu.Unlock()
			longest = max(longest, again)
		})
	}
	group.Wait()
	// Kubernetes detects a lost node after up to 55 seconds, and lostNodeTimeout is 30 seconds. By
	// default, Kubernetes would replace the pods after 5 minutes.
	if limit := 4 * time.Minute; longest > limit {
		t.Errorf("a function answers only %s after its node was lost, more than %s", longest, limit)
	}
	created := ns.apply(function("created", answering("here"), little))
	ns.answers(ns.ready(created), "here")

	connectNode(t, true)
	for _, fn := range all {
		fn = ns.ready(get(ns, fn.Name, &v1beta1.Function{}))
		ns.answers(fn, "here")
		ns.until("one pod of "+fn.Name+" is left", func() bool { return len(ns.pods(fn)) == 1 })
	}
	seen(t, fmt.Sprintf("Functions with one replica on a node that vanishes respond again within %.0f seconds.", longest.Seconds()))
}

// newNamespaceOfTwoNodes returns a namespace of a cluster with two nodes, and moves the program
// that sends requests to the first one.
func newNamespaceOfTwoNodes(t *testing.T) *namespace {
	t.Helper()
	ns := newNamespace(t)
	ns.eventually("there are two nodes, which are ready", func() error {
		var node corev1.Node
		err := cluster.Get(t.Context(), client.ObjectKey{Name: secondNode}, &node)
		if apierrors.IsNotFound(err) {
			t.Fatal("the cluster has one node: start it with NODES=2")
		}
		for _, c := range node.Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue {
				err = errors.Join(err, errors.New(c.Message))
			}
		}
		return err
	})
	defer uncordon(t)
	if _, err := kubectl(t.Context(), "cordon", secondNode); err != nil {
		t.Fatal(err)
	}
	if _, err := kubectl(t.Context(), "-n", caller.namespace, "delete", "pods", "--field-selector=spec.nodeName="+secondNode); err != nil {
		t.Fatal(err)
	}
	if _, err := kubectl(t.Context(), "-n", caller.namespace, "wait", "--for=condition=Available", "deployment/probe", "--timeout="+patience.String()); err != nil {
		t.Fatal(err)
	}
	return ns
}

// spreadSystem gives both nodes a replica of each component of Goless.
func spreadSystem(ns *namespace) {
	ns.t.Helper()
	for _, name := range []string{operatorName, "goless-build", activatorName, "goless-triggers"} {
		ns.eventually("each node has a pod of "+name, func() error {
			pods, err := systemPods(ns.t.Context(), name)
			if err != nil {
				return err
			}
			on := map[string]int{}
			for _, pod := range pods {
				if podReady(&pod) == nil {
					return fmt.Errorf("pod %s is not ready", pod.Name)
				}
				on[pod.Spec.NodeName]++
			}
			if on[firstNode] > 0 && on[secondNode] > 0 {
				return nil
			}
			err = cluster.Delete(ns.t.Context(), &pods[0])
			return errors.Join(fmt.Errorf("the pods are on %v", on), err)
		})
	}
}

// onSecondNode creates functions of which each has a pod on the second node, and returns them and
// their URLs.
func (ns *namespace) onSecondNode(n int, replicasOf func(i int) int32, options ...func(*v1beta1.FunctionSpec)) (all []*v1beta1.Function, urls []string) {
	ns.t.Helper()
	if _, err := kubectl(ns.t.Context(), "cordon", firstNode); err != nil {
		ns.t.Fatal(err)
	}
	defer uncordon(ns.t)
	for i := range n {
		all = append(all, ns.apply(function(fmt.Sprintf("there-%d", i), answering("here"), append(options, little)...)))
	}
	for i, fn := range all {
		all[i] = ns.ready(fn)
	}
	uncordon(ns.t)
	for i, fn := range all {
		if count := replicasOf(i); count > 1 {
			all[i] = ns.ready(ns.change(fn, replicas(count)))
		}
		ns.answers(fn, "here")
		urls = append(urls, url(fn))
	}
	return all, urls
}

func uncordon(t *testing.T) {
	t.Helper()
	// The context of a test ends before its cleanup.
	if out, err := exec.Command("kubectl", "uncordon", firstNode, secondNode).CombinedOutput(); err != nil {
		t.Errorf("kubectl uncordon: %v: %s", err, out)
	}
}

// nodesOf returns the number of a Function's ready pods on each node.
func (ns *namespace) nodesOf(fn *v1beta1.Function) map[string]int {
	ns.t.Helper()
	on := map[string]int{}
	for _, pod := range ns.pods(fn) {
		if podReady(pod) != nil {
			on[pod.Spec.NodeName]++
		}
	}
	return on
}

// untilAnswers returns the time from since until a Function answers three times in a row.
func (ns *namespace) untilAnswers(fn *v1beta1.Function, since time.Time) time.Duration {
	const times, limit = 3, 5 * time.Minute
	inRow, first := 0, time.Duration(0)
	for time.Since(since) < limit && inRow < times {
		r, err := caller.call(ns.t.Context(), http.MethodGet, url(fn), "")
		if err == nil && r.Status == http.StatusOK {
			if inRow++; inRow == 1 {
				first = time.Since(since)
			}
		} else {
			inRow = 0
		}
		time.Sleep(100 * time.Millisecond)
	}
	if inRow < times {
		ns.t.Errorf("%s does not answer %s after its node was lost", fn.Name, limit)
		return limit
	}
	return first
}

// connectNode connects the second node to the first one, or disconnects it.
func connectNode(t *testing.T, connected bool) {
	t.Helper()
	netns := os.Getenv("GOLESS_CLUSTER_NETNS")
	if netns == "" {
		t.Fatal("GOLESS_CLUSTER_NETNS is not set: source .cache/cluster/env")
	}
	state := map[bool]string{true: "up", false: "down"}[connected]
	out, err := exec.Command("ip", "-netns", filepath.Base(netns), "link", "set", secondPort, state).CombinedOutput()
	if err != nil {
		t.Fatalf("ip: %v: %s", err, out)
	}
}

// pause stops the kube-proxy of a node until resume is called or the test ends.
func pause(t *testing.T, node string) {
	t.Helper()
	t.Cleanup(func() { resume(t, node) })
	signalProxy(t, node, syscall.SIGSTOP)
}

func resume(t *testing.T, node string) {
	t.Helper()
	signalProxy(t, node, syscall.SIGCONT)
}

// signalProxy sends a signal to the kube-proxy of a node of this cluster, which is in the network
// namespace of the node.
func signalProxy(t *testing.T, node string, signal syscall.Signal) {
	t.Helper()
	processes, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var proxies []int
	for _, file := range processes {
		data, err := os.ReadFile(file)
		args := strings.Split(string(bytes.TrimRight(data, "\x00")), "\x00")
		if err != nil || len(args) < 2 || args[1] != "kube-proxy" || !strings.HasPrefix(args[0], clusterDir()) {
			continue // the process has exited, or is another one
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil && slices.Contains(args, "--hostname-override="+node) {
			proxies = append(proxies, pid)
		}
	}
	if len(proxies) != 1 {
		t.Fatalf("%d processes are kube-proxy of node %s", len(proxies), node)
	}
	if err := syscall.Kill(proxies[0], signal); err != nil {
		t.Fatal(err)
	}
}

// clusterDir returns the directory of the cluster of this checkout.
func clusterDir() string { return filepath.Dir(os.Getenv("KUBECONFIG")) + "/" }
