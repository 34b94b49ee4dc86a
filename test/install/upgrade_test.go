package install

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// functions are the functions that the previous version runs: compiled in each pod and by the
// build service, with explicit and default fields, stopped, and broken.
const functions = `
apiVersion: v1
kind: ConfigMap
metadata: {name: greetings, namespace: ` + apart + `}
data: {GREETING: from the environment}
---
apiVersion: goless.io/v1beta1
kind: Function
metadata: {name: plain, namespace: ` + apart + `}
spec:
  function: |
    package plain

    import "net/http"

    func Handler(w http.ResponseWriter, r *http.Request) { w.Write([]byte("plain")) }
---
apiVersion: goless.io/v1beta1
kind: Function
metadata: {name: in-pod, namespace: ` + apart + `}
spec:
  replicas: 2
  timeout: 30s
  concurrency: 50
  build: {strategy: InPod, timeout: 5m}
  envFrom: [{configMapRef: {name: greetings}}]
  function: |
    package inpod

    import (
        "net/http"
        "os"
    )

    func Handler(w http.ResponseWriter, r *http.Request) { w.Write([]byte(os.Getenv("GREETING"))) }
---
apiVersion: goless.io/v1beta1
kind: Function
metadata: {name: shared, namespace: ` + apart + `}
spec:
  replicas: 2
  build: {strategy: Shared}
  resources: {limits: {memory: 128Mi}}
  function: |
    package shared

    import "net/http"

    func Handler(w http.ResponseWriter, r *http.Request) { w.Write([]byte("shared")) }
---
apiVersion: goless.io/v1beta1
kind: Function
metadata: {name: stopped, namespace: ` + apart + `}
spec:
  replicas: 0
  function: |
    package stopped

    import "net/http"

    func Handler(w http.ResponseWriter, r *http.Request) {}
---
apiVersion: goless.io/v1beta1
kind: Function
metadata: {name: broken, namespace: ` + apart + `}
spec:
  function: |
    package broken

    import "net/http"

    func Handler(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w) }
`

// serving are the functions that serve, answers their responses, and replicas the total number
// of their pods.
var (
	serving = []string{"plain", "in-pod", "shared"}
	answers = map[string]string{"plain": "plain", "in-pod": "from the environment", "shared": "shared"}
)

const replicas = 5

// exchanged is the release whose record of the pod template later releases cannot compare with
// theirs, so that an upgrade replaces the pods of its functions once.
const exchanged = "0.1.0"

// TestUpgrade installs the last release, built from its commit in CHANGELOG.md, and then the
// current one, which is the resolved deploy/ in the variable INSTALL. The functions keep
// serving in their pods, except those of one release, and no request is lost. On request, they
// use the new version.
func TestUpgrade(t *testing.T) {
	install := os.Getenv("INSTALL")
	if install == "" {
		t.Skip("INSTALL is not set to a resolved deploy/; make upgrade-test builds it, and runs this test on the real cluster")
	}
	c := connect(t, os.Getenv("KUBECONFIG"), "goless-system")
	last, err := lastRelease()
	if err != nil {
		t.Fatal(err)
	}
	former := last.make(t)
	t.Cleanup(func() { c.uninstall(former, install) })

	c.install(former)
	c.kubectl("", "create", "namespace", apart)
	c.kubectl(functions, "apply", "-f", "-")
	for name, answer := range answers {
		c.ready(name)
		c.await(name, answer)
	}
	c.reason("broken", "CompileFailed")
	c.reason("stopped", "Stopped")
	before := c.pods("name", serving...)

	var stops []func()
	for name, answer := range answers {
		stops = append(stops, c.ask(name, answer))
	}
	c.install(install)
	for _, command := range last.upgrade {
		c.run("", "bash", "-euo", "pipefail", "-c", command)
	}
	c.kubectl(strings.ReplaceAll(hello, "hello", "another"), "apply", "-f", "-")
	c.ready("another")
	c.await("another", "another")
	for name := range answers {
		c.ready(name)
	}
	c.reason("broken", "CompileFailed")
	c.reason("stopped", "Stopped")
	for _, stop := range stops {
		stop()
	}
	if now := c.pods("name", serving...); now != before && last.version != exchanged {
		t.Errorf("the functions have the pods\n%swant\n%s", now, before)
	}

	image := c.kubectl("", "-n", c.system, "get", "deployment", "goless-operator", "-o", `jsonpath={.spec.template.spec.containers[0].env[?(@.name=="FUNCTION_IMAGE")].value}`)
	c.kubectl("", "-n", apart, "annotate", "functions", "--all", "goless.io/upgrade=now")
	c.until("all pods are of the new version", func() (string, bool) {
		images := c.pods(`jsonpath={.items[*].spec.containers[?(@.name=="function")].image}`, serving...)
		return images, len(strings.Fields(images)) == replicas && strings.Count(images, image) == replicas
	})
	for name, answer := range answers {
		c.ready(name)
		c.await(name, answer)
	}
}

// install applies a resolved deploy/, and waits until everything runs.
func (c *cluster) install(file string) {
	c.Helper()
	c.kubectl("", "apply", "-f", file)
	for deployment := range strings.FieldsSeq(c.kubectl("", "-n", c.system, "get", "deployments", "-o", "name")) {
		c.kubectl("", "-n", c.system, "rollout", "status", deployment, "--timeout="+patience.String())
	}
}

// reason waits until a Function that does not serve reports a reason.
func (c *cluster) reason(function, want string) {
	c.Helper()
	c.until(function+" has the reason "+want, func() (string, bool) {
		got := c.kubectl("", "-n", apart, "get", "function/"+function, "-o", `jsonpath={.status.conditions[?(@.type=="Ready")].reason} {.status.conditions[?(@.type=="Available")].reason}`)
		return got, strings.Contains(got, want)
	})
}

// until waits until the condition holds. It prints the last state when it times out.
func (c *cluster) until(what string, condition func() (string, bool)) {
	c.Helper()
	var seen string
	if wait.PollUntilContextTimeout(c.Context(), 500*time.Millisecond, patience, true, func(context.Context) (ok bool, err error) {
		seen, ok = condition()
		return ok, nil
	}) != nil {
		c.Fatalf("timed out waiting until %s; the last state is\n%s", what, seen)
	}
}

// uninstall deletes the functions, and everything that was installed.
func (c *cluster) uninstall(files ...string) {
	commands := [][]string{{"delete", "namespace", apart, "--ignore-not-found"}}
	for _, file := range files {
		commands = append(commands, []string{"delete", "-f", file, "--ignore-not-found"})
	}
	for _, args := range commands {
		if out, err := exec.Command("kubectl", args...).CombinedOutput(); err != nil {
			c.Errorf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

// make builds the images of the release, pushes them to the registry KO_DOCKER_REPO, and
// returns the path of its deploy/ with these images.
func (r *formerRelease) make(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join(root, ".cache", "releases", r.commit))
	if err != nil {
		t.Fatal(err)
	}
	r.checkOut(t, dir)
	t.Logf("building %s from commit %s", r.version, r.commit)
	env := []string{"GOWORK=", "GOFLAGS=-buildvcs=false"} // this test is outside of the workspace
	command(t, dir, env, "go", "run", "./builder/cmd/kodata", "builder/cmd/builder/kodata")
	command(t, dir, env, "bash", "-euo", "pipefail", "-c", "ko resolve --base-import-paths -f deploy >install.yaml")
	return filepath.Join(dir, "install.yaml")
}
