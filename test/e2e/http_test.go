package e2e

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// exposing exposes a Function with an Ingress, and with a Gateway.
const exposing = `
apiVersion: goless.io/v1alpha1
kind: HTTPTrigger
metadata: {name: ingress}
spec: {functionRef: {name: exposed}, hostnames: [a.example], ingressClassName: goless-e2e-none}
---
apiVersion: goless.io/v1alpha1
kind: HTTPTrigger
metadata: {name: gateway}
spec: {functionRef: {name: exposed}, hostnames: [b.example], parentRefs: [{name: none}]}
---
apiVersion: goless.io/v1alpha1
kind: HTTPTrigger
metadata: {name: foreign}
spec: {functionRef: {name: exposed}, hostnames: [bank.test], ingressClassName: goless-e2e-none}
`

// The status of HTTPTriggers is correct in a cluster without a Gateway and without an Ingress
// controller. TestNeighbourTraefik sends requests.
func TestHTTPTrigger(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t, func(object *corev1.Namespace) { object.Annotations["goless.io/hostnames"] = "*.example" })
	ns.applyYAML(exposing)
	ns.triggerSays("ingress", "FunctionNotFound", "")
	ns.ready(ns.apply(function("exposed", answering("exposed"), little)))
	ns.triggerSays("ingress", "Ready", "")
	if address := ns.kubectl("get", "httptrigger/ingress", "--output=jsonpath={.status.url}"); address != "http://a.example/" {
		t.Errorf("the URL is %q", address)
	}
	ns.triggerSays("foreign", "HostnameNotAllowed", "bank.test is not allowed in namespace "+ns.name)
	if !gatewayAPI(t.Context()) {
		ns.triggerSays("gateway", "NoGatewayAPI", "the cluster does not have the kinds Gateway and HTTPRoute")
	}
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
