// Package chart tests the Helm chart as an administrator uses it, on a real cluster where
// Goless is not installed yet: in a namespace of another name, under requests.
package chart

import (
	"context"
	"fmt"
	"os"
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
	// system is another namespace than the one that deploy/ names.
	system = "functions-system"

	// apart is where the Functions of this test are.
	apart = "goless-chart-test"

	patience = 5 * time.Minute
)

const hello = `
apiVersion: goless.io/v1beta1
kind: Function
metadata: {name: hello, namespace: ` + apart + `}
spec:
  function: |
    package hello

    import (
        "fmt"
        "net/http"
    )

    func Handler(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "hello") }
`

// TestLifeOfARelease installs, upgrades, goes back, uninstalls and installs again. The
// function serves all the time.
func TestLifeOfARelease(t *testing.T) {
	chart, kubeconfig := os.Getenv("CHART"), os.Getenv("KUBECONFIG")
	if chart == "" || kubeconfig == "" {
		t.Fatal("CHART and KUBECONFIG are not set: run make e2e")
	}
	r := &release{T: t, requests: connect(t, kubeconfig)}
	t.Cleanup(r.remove)
	r.kubectl("", "create", "namespace", apart)

	r.helm("install", "goless", chart, "--namespace", system, "--create-namespace", "--wait", "--timeout", patience.String())
	r.helm("test", "goless", "--namespace", system)
	r.kubectl(hello, "apply", "-f", "-")
	r.kubectl("", "-n", apart, "wait", "--for=condition=Ready", "--timeout="+patience.String(), "function/hello")
	r.await("hello")
	pods := r.pods()

	stop := r.ask("hello")
	r.helm("upgrade", "goless", chart, "--namespace", system, "--wait", "--timeout", patience.String(),
		"--set", "operator.replicas=1", "--set", "config.referencePause=5s", "--set-json", `operator.pod={"priorityClassName":"system-cluster-critical"}`)
	if got := r.kubectl("", "-n", system, "get", "deployment", "goless-operator", "-o", "jsonpath={.spec.replicas} {.spec.template.spec.priorityClassName}"); got != "1 system-cluster-critical" {
		t.Errorf("the upgraded operator has %q", got)
	}
	r.helm("rollback", "goless", "1", "--namespace", system, "--wait", "--timeout", patience.String())
	if got := r.kubectl("", "-n", system, "get", "deployment", "goless-operator", "-o", "jsonpath={.spec.replicas}"); got != "2" {
		t.Errorf("the operator has %q replicas again, want 2", got)
	}
	r.helm("uninstall", "goless", "--namespace", system, "--wait")
	r.kubectl("", "-n", apart, "get", "function/hello")
	r.helm("install", "goless", chart, "--namespace", system, "--wait", "--timeout", patience.String())
	r.helm("test", "goless", "--namespace", system)
	stop()
	if now := r.pods(); now != pods {
		t.Errorf("the function has the pods %s, want that %s go on", now, pods)
	}

	r.kubectl(strings.Replace(hello, `w, "hello"`, `w, "changed"`, 1), "apply", "-f", "-")
	r.await("changed")
}

// A typing mistake in a value is refused.
func TestWrongValue(t *testing.T) {
	r := &release{T: t}
	out, err := exec.Command(os.Getenv("HELM"), "template", os.Getenv("CHART"), "--set", "operator.replica=3").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "replica") {
		r.Errorf("a value that does not exist: %v, %s", err, out)
	}
}

// A release is Goless in a cluster, and a function of it.
type release struct {
	*testing.T
	requests rest.Interface
}

func connect(t *testing.T, kubeconfig string) rest.Interface {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1 // the API server defends itself
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return kube.CoreV1().RESTClient()
}

func (r *release) helm(args ...string) {
	r.Helper()
	r.Logf("helm %s", strings.Join(args, " "))
	if out, err := exec.Command(os.Getenv("HELM"), args...).CombinedOutput(); err != nil {
		pods, _ := exec.Command("kubectl", "-n", system, "describe", "pods").CombinedOutput() // for the message
		r.Fatalf("helm %s: %v\n%s\n%s", strings.Join(args, " "), err, out, pods)
	}
}

func (r *release) kubectl(stdin string, args ...string) string {
	r.Helper()
	cmd := exec.Command("kubectl", args...)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	if err != nil {
		r.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// pods are the names of the function's pods.
func (r *release) pods() string {
	r.Helper()
	return r.kubectl("", "-n", apart, "get", "pods", "-l", "goless.io/function=hello", "-o", "name")
}

// call asks the function by way of the API server.
func (r *release) call(ctx context.Context) (string, error) {
	body, err := r.requests.Get().Namespace(apart).Resource("services").Name("hello:8080").SubResource("proxy").DoRaw(ctx)
	return string(body), err
}

// await waits for an answer.
func (r *release) await(want string) {
	r.Helper()
	var got string
	var err error
	if wait.PollUntilContextTimeout(r.Context(), 100*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		got, err = r.call(ctx)
		return err == nil && got == want, nil
	}) != nil {
		r.Fatalf("the function answers %q, %v, want %q", got, err, want)
	}
}

// ask sends requests until stop is called, and fails the test for each that gets another
// answer.
func (r *release) ask(want string) (stop func()) {
	ctx, cancel := context.WithCancel(r.Context())
	ended := make(chan string)
	go func() {
		count, lost := 0, []string{}
		for ctx.Err() == nil {
			if got, err := r.call(context.WithoutCancel(ctx)); err != nil || got != want {
				lost = append(lost, fmt.Sprintf("%q, %v", got, err))
			}
			count++
			time.Sleep(20 * time.Millisecond) // some 50 requests a second are enough
		}
		r.Logf("%d requests, %d lost", count, len(lost))
		ended <- strings.Join(lost, "\n")
	}()
	return func() {
		cancel()
		if lost := <-ended; lost != "" {
			r.Errorf("lost requests:\n%s", lost)
		}
	}
}

// remove leaves the cluster as it was.
func (r *release) remove() {
	for _, args := range [][]string{
		{os.Getenv("HELM"), "uninstall", "goless", "--namespace", system, "--wait", "--ignore-not-found"},
		{"kubectl", "delete", "crd", "functions.goless.io", "--ignore-not-found"},
		{"kubectl", "delete", "namespace", system, apart, "--ignore-not-found"},
	} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			r.Errorf("%s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}
