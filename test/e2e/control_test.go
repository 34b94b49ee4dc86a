package e2e

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Namespace and names of the operator and the activator in deploy/.
const (
	systemNamespace = "goless-system"
	operatorName    = "goless-operator"
	activatorName   = "goless-activator"
)

// operatorPods returns the operator's pods that are not terminating.
func operatorPods(ctx context.Context) ([]corev1.Pod, error) {
	var pods corev1.PodList
	err := cluster.List(ctx, &pods, client.InNamespace(systemNamespace), client.MatchingLabels{"app.kubernetes.io/name": operatorName})
	return slices.DeleteFunc(pods.Items, func(pod corev1.Pod) bool { return pod.DeletionTimestamp != nil }), err
}

// leader returns the operator's pod that holds the lease.
func leader(ctx context.Context) (*corev1.Pod, error) {
	holder, err := leaderOf(ctx, operatorName)
	if err != nil {
		return nil, err
	}
	pods, err := operatorPods(ctx)
	if err != nil {
		return nil, err
	}
	for _, pod := range pods {
		if pod.Name == holder {
			return &pod, nil
		}
	}
	return nil, fmt.Errorf("the lease is held by %q, which is none of %d pods", holder, len(pods))
}

// leaderOf returns the name of the pod that holds a lease in the system namespace; empty if none does.
func leaderOf(ctx context.Context, leaseName string) (string, error) {
	var lease coordinationv1.Lease
	if err := cluster.Get(ctx, client.ObjectKey{Namespace: systemNamespace, Name: leaseName}, &lease); err != nil || lease.Spec.HolderIdentity == nil {
		return "", err
	}
	pod, _, _ := strings.Cut(*lease.Spec.HolderIdentity, "_")
	return pod, nil
}

// operators waits until the operator has as many ready pods as deploy/ specifies, one of which
// holds the lease, and returns them with the leader first.
func (ns *namespace) operators() []corev1.Pod {
	const n = 2
	ns.t.Helper()
	var pods []corev1.Pod
	ns.eventually(fmt.Sprintf("the operator has %d ready replicas and a leader", n), func() error {
		first, err := leader(ns.t.Context())
		if err != nil {
			return err
		}
		if pods, err = operatorPods(ns.t.Context()); err != nil {
			return err
		}
		ready := 0
		for _, pod := range pods {
			if podReady(&pod) != nil {
				ready++
			}
		}
		if len(pods) != n || ready != n {
			return fmt.Errorf("there are %d pods, %d of them ready", len(pods), ready)
		}
		slices.SortFunc(pods, func(a, _ corev1.Pod) int {
			if a.Name == first.Name {
				return -1
			}
			return 1
		})
		return nil
	})
	return pods
}

// operatorKeptCalm fails the test if the operator crashed, recovered from a panic, or received
// a warning that its objects violate Pod Security.
func operatorKeptCalm(ctx context.Context) error {
	pods, err := operatorPods(ctx)
	if err != nil {
		return err
	}
	for _, pod := range pods {
		for _, c := range pod.Status.ContainerStatuses {
			if c.RestartCount > 0 && !starved(ctx, &pod, c.LastTerminationState.Terminated) {
				return fmt.Errorf("pod %s was restarted %d times: %s", pod.Name, c.RestartCount, yamlOf(c.LastTerminationState))
			}
		}
		log, err := logOf(ctx, &pod, false)
		if err != nil {
			return err
		}
		if alarm := alarming.FindString(log); alarm != "" {
			return fmt.Errorf("pod %s logged: %s", pod.Name, alarm)
		}
	}
	return nil
}

var alarming = regexp.MustCompile(`.*(would violate PodSecurity|Observed a panic|panic:).*`)

// starved reports whether the operator exited because it got too little processor time: it
// could not renew its lease, or its liveness probe failed. It exits on purpose in these cases,
// without other output.
func starved(ctx context.Context, pod *corev1.Pod, ended *corev1.ContainerStateTerminated) bool {
	if ended == nil {
		return false
	}
	log, err := logOf(ctx, pod, true)
	lost := ended.ExitCode == 1 && strings.HasSuffix(strings.TrimSpace(log), "leader election lost")
	if err != nil || (ended.ExitCode != 0 && !lost) {
		return false
	}
	fmt.Fprintf(os.Stderr, "pod %s was restarted, because this machine is busy: exit code %d, lease lost: %t\n", pod.Name, ended.ExitCode, lost)
	return true
}

// logOf returns the log of a pod of the operator, or of its previous container.
func logOf(ctx context.Context, pod *corev1.Pod, previous bool) (string, error) {
	log, err := kube.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{Previous: previous}).DoRaw(ctx)
	if err != nil {
		return "", fmt.Errorf("reading the log of pod %s: %w", pod.Name, err)
	}
	return string(log), nil
}
