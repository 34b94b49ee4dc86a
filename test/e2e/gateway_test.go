package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"goless.io/test/docs/markdown"
)

// throughGateway is a canary, initially with a Gateway that does not accept it.
const throughGateway = `
apiVersion: goless.io/v1alpha1
kind: HTTPTrigger
metadata: {name: canary}
spec:
  hostnames: [HOST]
  parentRefs: [{name: closed, namespace: goless-e2e-gateway}]
  backends: [{function: old, weight: 90}, {function: new, weight: 10}]
---
apiVersion: goless.io/v1alpha1
kind: HTTPTrigger
metadata: {name: taken}
spec: {functionRef: {name: new}, hostnames: [HOST], parentRefs: [{name: open, namespace: goless-e2e-gateway}]}
---
apiVersion: goless.io/v1alpha1
kind: HTTPTrigger
metadata: {name: foreign}
spec: {functionRef: {name: new}, hostnames: [bank.test], ingressClassName: goless-e2e}
---
apiVersion: goless.io/v1alpha1
kind: HTTPTrigger
metadata: {name: asleep}
spec: {functionRef: {name: asleep}, hostnames: [HOST], path: /asleep, ingressClassName: goless-e2e}
`

// HTTPTriggers work with a gateway: each Function receives its share of the requests, and none
// is lost. A Gateway that rejects the route, and a hostname that is not allowed, are reported.
// The commands of the documentation give the same result.
func TestGateway(t *testing.T) {
	t.Parallel()
	requests := 20_000
	if os.Getenv("FULL") != "" {
		requests = 100_000
	}
	ns := newNamespace(t, func(object *corev1.Namespace) { object.Annotations["goless.io/hostnames"] = "*.example" })
	sleeper := ns.apply(function("asleep", answering("awake"), sleeping, little))
	ns.ready(ns.apply(function("old", answering("old"), little)))
	ns.ready(ns.apply(function("new", answering("new"), little)))
	host := ns.name + ".example"
	ns.applyYAML(strings.ReplaceAll(throughGateway, "HOST", host))
	if !gatewayAPI(t.Context()) {
		ns.triggerSays("canary", "NoGatewayAPI", "the cluster has no HTTPRoutes")
	}
	gateway := serveGateway(t)

	ns.triggerSays("canary", "NotAccepted", "NotAllowedByListeners")
	ns.kubectl("patch", "httptrigger/canary", "--type=merge", `--patch={"spec": {"parentRefs": [{"name": "open", "namespace": "goless-e2e-gateway"}]}}`)
	ns.triggerSays("canary", "Ready", "")
	ns.triggerSays("taken", "HostnameTaken", "HTTPTrigger canary")
	ns.triggerSays("foreign", "HostnameNotAllowed", "bank.test is not allowed in namespace "+ns.name)
	ns.replies(gateway, "http://bank.test/", http.StatusNotFound, "no route for bank.test")

	address := ns.kubectl("get", "httptrigger/canary", "--output=jsonpath={.status.url}")
	load := ns.loadOf(gateway, 500, address)
	load.sent(requests)
	seen := load.stop()
	share, wanted := float64(seen.Answers["new"].Count), float64(seen.Requests)/10
	if deviation := math.Sqrt(wanted * 0.9); len(seen.Answers) != 2 || math.Abs(share-wanted) > 5*deviation {
		t.Errorf("the canary received %.0f of %d requests, want %.0f plus or minus five times %.0f: %v", share, seen.Requests, wanted, deviation, seen.Answers)
	}

	ns.kubectl("patch", "httptrigger/canary", "--type=merge", `--patch={"spec": {"backends": [{"function": "old", "weight": 0}, {"function": "new", "weight": 1}]}}`)
	ns.eventually("thirty consecutive requests go to the promoted Function", func() error {
		for range 30 {
			if r, err := gateway.call(t.Context(), http.MethodGet, address, ""); err != nil || r.Body != "new" {
				return fmt.Errorf("one is answered %d %q %s (%w)", r.Status, r.Body, r.Error, err)
			}
		}
		return nil
	})
	load = ns.loadOf(gateway, 500, address)
	load.sent(1000)
	if seen := load.stop(); len(seen.Answers) != 1 {
		t.Errorf("after the promotion the responses were %v", seen.Answers)
	}

	ns.asleep(sleeper)
	ns.replies(gateway, ns.kubectl("get", "httptrigger/asleep", "--output=jsonpath={.status.url}"), http.StatusOK, "awake")

	page, err := markdown.Read(repo, exposed)
	if err != nil {
		t.Fatal(err)
	}
	r := newReader(t, filepath.Dir(buildBuilder(t)))
	r.env = append(r.env, "INGRESS_NAMESPACE=goless-e2e-gateway", "INGRESS_SERVICE=gateway")
	r.follow(page)
}

// triggerSays waits until the condition Ready of an HTTPTrigger has a reason, and a message
// with a part.
func (ns *namespace) triggerSays(trigger, reason, part string) {
	ns.t.Helper()
	ns.eventually("HTTPTrigger "+trigger+" has the reason "+reason, func() error {
		said := ns.kubectl("get", "httptrigger/"+trigger, `--output=jsonpath={range .status.conditions[?(@.type=="Ready")]}{.reason}: {.message}{end}`)
		if !strings.HasPrefix(said, reason+": ") || !strings.Contains(said, part) {
			return fmt.Errorf("it is %q", said)
		}
		return nil
	})
}

// replies waits until a URL responds with a status and a part.
func (ns *namespace) replies(p *probe, url string, status int, part string) {
	ns.t.Helper()
	ns.eventually(fmt.Sprintf("%s responds with %d %s", url, status, part), func() error {
		r, err := p.call(ns.t.Context(), http.MethodGet, url, "")
		if err != nil {
			return err
		}
		if r.Status != status || !strings.Contains(r.Body, part) {
			return fmt.Errorf("it answers %d %q %s", r.Status, r.Body, r.Error)
		}
		return nil
	})
}

// gatewayAPI reports whether the cluster has the Gateway API.
func gatewayAPI(ctx context.Context) bool {
	_, err := kubectl(ctx, "get", "crd/httproutes.gateway.networking.k8s.io")
	return err == nil
}

// serveGateway runs a gateway until the test ends, and returns a probe whose requests go to it.
// It installs the Gateway API for that time if necessary.
func serveGateway(t *testing.T) *probe {
	t.Helper()
	image := os.Getenv("GATEWAY_IMAGE")
	if image == "" {
		t.Fatal("GATEWAY_IMAGE is not set; run make e2e, which builds that image")
	}
	if !gatewayAPI(t.Context()) {
		installGatewayAPI(t)
	}
	text, err := os.ReadFile("testdata/gateway.yaml")
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "gateway.yaml")
	if err := os.WriteFile(program, []byte(strings.Replace(string(text), "GATEWAY_IMAGE", image, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	deleteAtEnd(t, "-f", program)
	for _, args := range [][]string{
		{"apply", "-f", program},
		{"-n", "goless-e2e-gateway", "rollout", "status", "deployment/gateway", "--timeout=" + patience.String()},
	} {
		if _, err := kubectl(t.Context(), args...); err != nil {
			t.Fatal(err)
		}
	}
	return &probe{namespace: caller.namespace, via: "gateway.goless-e2e-gateway.svc:80"}
}

// installGatewayAPI installs the required parts of the Gateway API from its module.
func installGatewayAPI(t *testing.T) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", "sigs.k8s.io/gateway-api").Output()
	var module struct{ Dir string }
	if err == nil {
		err = json.Unmarshal(out, &module)
	}
	if err != nil {
		t.Fatal("downloading the CustomResourceDefinitions of the Gateway API: ", err)
	}
	var files, names []string
	for _, kind := range []string{"gateways", "httproutes"} {
		files = append(files, "-f", filepath.Join(module.Dir, "config", "crd", "standard", "gateway.networking.k8s.io_"+kind+".yaml"))
		names = append(names, "crd/"+kind+".gateway.networking.k8s.io")
	}
	deleteAtEnd(t, names...)
	_, err = kubectl(t.Context(), append([]string{"apply", "--server-side"}, files...)...)
	if err == nil {
		_, err = kubectl(t.Context(), append([]string{"wait", "--for=condition=Established", "--timeout=" + patience.String()}, names...)...)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// deleteAtEnd deletes objects when the test ends.
func deleteAtEnd(t *testing.T, objects ...string) {
	t.Helper()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if _, err := kubectl(ctx, append([]string{"delete", "--ignore-not-found"}, objects...)...); err != nil {
			t.Error(err)
		}
	})
}
