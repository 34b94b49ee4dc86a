// Package install tests the installation and the upgrade of Goless with the Helm chart and with
// deploy/, as an administrator performs them. It requires a real cluster without Goless.
package install

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	// apart is the namespace of the Functions of these tests.
	apart = "goless-install-test"

	patience = 5 * time.Minute
)

// A cluster is the cluster in which Goless is installed.
type cluster struct {
	*testing.T
	system   string // the namespace of Goless
	requests rest.Interface
}

func connect(t *testing.T, kubeconfig, system string) *cluster {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1 // the API server limits requests itself
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return &cluster{T: t, system: system, requests: kube.CoreV1().RESTClient()}
}

// run runs a command. If it fails, the test fails with the state of the pods of Goless.
func (c *cluster) run(stdin, name string, args ...string) string {
	c.Helper()
	cmd := exec.Command(name, args...)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	if err != nil {
		pods, _ := exec.Command("kubectl", "-n", c.system, "describe", "pods").CombinedOutput() // for the message
		c.Fatalf("%s: %v\n%s\n%s", strings.Join(append([]string{name}, args...), " "), err, out, pods)
	}
	return string(out)
}

func (c *cluster) kubectl(stdin string, args ...string) string {
	c.Helper()
	return c.run(stdin, "kubectl", args...)
}

// ready waits until Functions are ready.
func (c *cluster) ready(functions ...string) {
	c.Helper()
	for _, name := range functions {
		c.kubectl("", "-n", apart, "wait", "--for=condition=Ready", "--timeout="+patience.String(), "function/"+name)
	}
}

// pods returns the names of the pods of Functions, sorted, or the result of a JSONPath
// expression for the list of pods.
func (c *cluster) pods(output string, functions ...string) string {
	c.Helper()
	return c.kubectl("", "-n", apart, "get", "pods", "-l", "goless.io/function in ("+strings.Join(functions, ",")+")", "-o", output)
}

// call calls a function through the API server.
func (c *cluster) call(ctx context.Context, function string) (string, error) {
	body, err := c.requests.Get().Namespace(apart).Resource("services").Name(function + ":8080").SubResource("proxy").DoRaw(ctx)
	return string(body), err
}

// await waits for a response.
func (c *cluster) await(function, want string) {
	c.Helper()
	var got string
	var err error
	if wait.PollUntilContextTimeout(c.Context(), 100*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		got, err = c.call(ctx, function)
		return err == nil && got == want, nil
	}) != nil {
		c.Fatalf("%s responds with %q, %v, want %q", function, got, err, want)
	}
}

// ask sends requests until stop is called, and fails the test for each other response.
func (c *cluster) ask(function, want string) (stop func()) {
	ctx, cancel := context.WithCancel(c.Context())
	ended := make(chan string)
	go func() {
		count, lost := 0, []string{}
		for ctx.Err() == nil {
			if got, err := c.call(context.WithoutCancel(ctx), function); err != nil || got != want {
				lost = append(lost, fmt.Sprintf("%q, %v", got, err))
			}
			count++
			time.Sleep(20 * time.Millisecond) // some 50 requests a second are enough
		}
		c.Logf("%d requests to %s, %d lost", count, function, len(lost))
		ended <- strings.Join(lost, "\n")
	}()
	return func() {
		cancel()
		if lost := <-ended; lost != "" {
			c.Errorf("lost requests to %s:\n%s", function, lost)
		}
	}
}
