package e2e

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"goless.io/operator/api/v1beta1"
)

// In a service mesh, functions start, sleep, wake, and lose no requests at a rollout, and the calls
// of a CronTrigger end. If the mesh closes plaintext connections, the status of a function says why
// it does not sleep. The sidecar is ours: see test/neighbours/mesh.
func TestNeighbourMesh(t *testing.T) {
	t.Run("Permissive", func(t *testing.T) {
		ns := inMesh(t, "permissive")
		fn := ns.ready(ns.apply(function("called", answering("one"), sleeping)))
		ns.answers(fn, "one")
		for range 3 {
			fn = ns.asleep(fn)
			if r := ns.call(http.MethodGet, url(fn), ""); r.Status != http.StatusOK || r.Body != "one" {
				t.Errorf("a request that wakes the function got %d %q", r.Status, r.Body)
			}
		}
		stop := ns.load(fn)
		fn = ns.ready(ns.change(fn, source(answering("two"))))
		ns.answers(fn, "two")
		if seen := stop(); seen.Failures > seen.strays() {
			t.Errorf("%d of %d requests failed during a rollout: %v", seen.Failures, seen.Requests, seen.Errors)
		}
		ns.applyYAML(minutely)
		ns.kubectl("wait", "crontrigger/minutely", "--for=condition=Delivered", "--timeout=180s")
		ns.eventually("the pod of a call is gone although its sidecar does not end", func() error {
			if names := ns.kubectl("get", "pods", "--selector=goless.io/trigger", "--output=name"); names != "" {
				return fmt.Errorf("there is %s", names)
			}
			return nil
		})
	})
	t.Run("Strict", func(t *testing.T) {
		ns := inMesh(t, "strict")
		fn := ns.ready(ns.apply(function("called", answering("one"), sleeping)))
		ns.becomes(fn, "awake, with the reason in its status", func(fn *v1beta1.Function) bool {
			return condition(fn, v1beta1.ConditionDegraded).Reason == v1beta1.ReasonCannotSleep
		})
	})
	seen(t, "No service mesh was run, only our own test sidecar. With it, functions start, sleep, wake and are updated, and a CronTrigger calls them. If the sidecar rejects plaintext, functions do not sleep, and their status contains the reason.")
}

// inMesh returns a namespace into whose pods the sidecar is injected.
func inMesh(t *testing.T, mode string) *namespace {
	t.Helper()
	text, err := os.ReadFile("testdata/mesh.yaml")
	if err != nil {
		t.Fatal(err)
	}
	strict := map[string]string{"strict": "true", "permissive": "false"}[mode]
	policy := strings.NewReplacer("MESH_IMAGE", neighbourImage(t, "IMAGE_MESH"), "MODE", mode, "STRICT", strict).Replace(string(text))
	kubectlStdin(t, policy, "apply", "-f", "-")
	t.Cleanup(func() { kubectlStdin(t, policy, "delete", "--ignore-not-found", "-f", "-") })
	ns := newNamespace(t, func(object *corev1.Namespace) {
		object.Labels = map[string]string{"goless.io/mesh": mode, "pod-security.kubernetes.io/enforce": "privileged"}
	})
	ns.eventually("the API server applies the policy", func() error {
		if !strings.Contains(ns.kubectl("run", "probe", "--image=probe", "--dry-run=server", "--output=yaml"), "mesh-init") {
			return errors.New("no sidecar is injected")
		}
		return nil
	})
	return ns
}
