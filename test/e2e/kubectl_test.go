package e2e

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"goless.io/operator/api/v1beta1"
)

// kubectl returns all output of the command. It retries if a busy API server was not reached.
func kubectl(ctx context.Context, args ...string) (string, error) {
	for tries := 1; ; tries++ {
		out, err := exec.CommandContext(ctx, "kubectl", args...).CombinedOutput()
		if err == nil {
			return string(out), nil
		}
		if tries < 10 && unreached.Match(out) && ctx.Err() == nil {
			time.Sleep(time.Second)
			continue
		}
		return string(out), fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, out)
	}
}

var unreached = regexp.MustCompile(`TLS handshake timeout|connection refused|currently unable to handle the request`)

// kubectl runs a command in the namespace, which must succeed.
func (ns *namespace) kubectl(args ...string) string {
	ns.t.Helper()
	out, err := kubectl(ns.t.Context(), append([]string{"-n", ns.name}, args...)...)
	if err != nil {
		ns.t.Fatal(err)
	}
	return out
}

// logs waits until the log of a Function's only pod contains all wanted texts, because logs
// arrive with a delay. It returns the log.
func (ns *namespace) logs(fn *v1beta1.Function, want ...string) (log string) {
	ns.t.Helper()
	pod := ns.pod(fn)
	ns.eventually("the log of "+pod.Name+" contains all texts", func() error {
		log = ns.kubectl("logs", pod.Name, "--container=function")
		for _, text := range want {
			if !strings.Contains(log, text) {
				return fmt.Errorf("it does not say %s:\n%s", text, log)
			}
		}
		return nil
	})
	return log
}

var forwarding = regexp.MustCompile(`127\.0\.0\.1:(\d+)`)

// forward forwards a port of a pod or a Service to this machine until the test ends, and
// returns its host and port.
func forward(t *testing.T, namespace, target, port string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "kubectl", "-n", namespace, "port-forward", "--address=127.0.0.1", target, ":"+port)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var complaints strings.Builder
	cmd.Stderr = &complaints
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Wait() }) // the end of the test's context killed it
	line, err := bufio.NewReader(out).ReadString('\n')
	found := forwarding.FindStringSubmatch(line)
	if found == nil {
		t.Fatalf("kubectl port-forward printed %q (%v): %s", line, err, complaints.String())
	}
	go io.Copy(io.Discard, out) //nolint:errcheck // a line for each connection, until it ends
	return "127.0.0.1:" + found[1]
}

// dump writes the objects of the namespace to a file, for the analysis of a failure.
func (ns *namespace) dump(ctx context.Context) {
	var all strings.Builder
	show := func(args ...string) {
		out, _ := kubectl(ctx, args...) // an error is in what it printed
		fmt.Fprintf(&all, "$ kubectl %s\n%s\n", strings.Join(args, " "), out)
	}
	show("-n", ns.name, "get", "functions,deployments,replicasets,jobs,pods,services,endpointslices,configmaps", "-o", "wide")
	show("-n", ns.name, "get", "functions", "-o", "yaml")
	show("-n", ns.name, "get", "pods", "-o", "yaml")
	show("-n", ns.name, "events")
	var pods corev1.PodList
	if err := cluster.List(ctx, &pods, client.InNamespace(ns.name)); err != nil {
		ns.t.Log(err)
	}
	for _, pod := range pods.Items {
		show("-n", ns.name, "logs", pod.Name, "--all-containers", "--prefix", "--tail=100")
	}
	show("-n", systemNamespace, "logs", "deployment/"+operatorName, "--tail=100")
	path := filepath.Join(os.TempDir(), ns.name+".log")
	if err := os.WriteFile(path, []byte(all.String()), 0o644); err != nil {
		ns.t.Log(err)
	}
	ns.t.Logf("the objects of namespace %s: %s", ns.name, path)
}

func yamlOf(object any) string {
	text, err := yaml.Marshal(object)
	if err != nil {
		return err.Error()
	}
	return string(text)
}
