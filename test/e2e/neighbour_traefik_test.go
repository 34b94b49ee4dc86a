package e2e

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"goless.io/operator/api/v1beta1"
	"goless.io/test/docs/markdown"
)

// kindsOfRoutes are the fields of an HTTPTrigger with which it creates an Ingress or an HTTPRoute.
// Traefik serves both, with one provider for each.
var kindsOfRoutes = map[string]string{
	"Ingress": "ingressClassName: goless-e2e",
	"Gateway": "parentRefs: [{name: open, namespace: " + traefikNamespace + "}]",
}

// HTTPTriggers work with Traefik, with Ingresses and with the Gateway API.
func TestNeighbourTraefik(t *testing.T) {
	absent := newNamespace(t, anyExample)
	absent.expose("early", "no-function", "", "early.example.com", kindsOfRoutes["Gateway"])
	if !gatewayAPI(t.Context()) {
		absent.triggerSays("early", "NoGatewayAPI", "the cluster does not have the kinds Gateway and HTTPRoute")
	}
	installTraefik(t)
	absent.triggerSays("early", "FunctionNotFound", "")

	t.Run("Canary", testCanary)
	t.Run("Rejected", testRejected)
	t.Run("Page", func(t *testing.T) {
		t.Parallel()
		page, err := markdown.Read(repo, exposed)
		if err != nil {
			t.Fatal(err)
		}
		r := newReader(t, filepath.Dir(buildBuilder(t)))
		r.env = append(r.env, "INGRESS_NAMESPACE="+traefikNamespace, "INGRESS_SERVICE=traefik")
		r.follow(page)
		seen(t, "The commands of [Expose a function](expose.md) work.")
	})
	t.Run("Move", testMove)
	for kind, fields := range kindsOfRoutes {
		t.Run("Protocols"+kind, func(t *testing.T) { testProtocols(t, kind, fields) })
		t.Run("Sleep"+kind, func(t *testing.T) { testSleep(t, kind, fields) })
	}
}

// anyExample lets a namespace use all names below example.com, for which exampleCertificate is.
func anyExample(object *corev1.Namespace) {
	object.Annotations["goless.io/hostnames"] = "*.example.com"
}

// expose creates an HTTPTrigger for a Function, with additional fields. An empty path means /.
func (ns *namespace) expose(name, fn, path, host string, fields ...string) {
	ns.t.Helper()
	if path != "" {
		fields = append(fields, "path: "+path)
	}
	ns.applyYAML(fmt.Sprintf("apiVersion: goless.io/v1alpha1\nkind: HTTPTrigger\nmetadata: {name: %s}\nspec:\n  functionRef: {name: %s}\n  hostnames: [%s]\n  %s\n",
		name, fn, host, strings.Join(fields, "\n  ")))
}

// traefik is a probe whose requests go to Traefik.
func traefik() *probe {
	return &probe{namespace: caller.namespace, via: "traefik." + traefikNamespace + ".svc:80"}
}

// Each Function receives its share of the requests, and none is lost.
func testCanary(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t, anyExample)
	ns.ready(ns.apply(function("old", answering("old"), little)))
	ns.ready(ns.apply(function("new", answering("new"), little)))
	host := ns.name + ".example.com"
	ns.applyYAML(strings.NewReplacer("HOST", host, "FIELDS", kindsOfRoutes["Gateway"]).Replace(`
apiVersion: goless.io/v1alpha1
kind: HTTPTrigger
metadata: {name: canary}
spec:
  hostnames: [HOST]
  FIELDS
  backends: [{function: old, weight: 90}, {function: new, weight: 10}]
`))
	ns.triggerSays("canary", "Ready", "")
	address := ns.kubectl("get", "httptrigger/canary", "--output=jsonpath={.status.url}")
	ns.replies(traefik(), address, http.StatusOK, "")

	load := ns.loadOf(traefik(), 500, address)
	load.sent(20_000)
	answers := load.stop()
	share, wanted := float64(answers.Answers["new"].Count), float64(answers.Requests)/10
	if deviation := math.Sqrt(wanted * 0.9); len(answers.Answers) != 2 || math.Abs(share-wanted) > 5*deviation {
		t.Errorf("the canary received %.0f of %d requests, want %.0f plus or minus five times %.0f: %v", share, answers.Requests, wanted, deviation, answers.Answers)
	}
	seen(t, fmt.Sprintf("A weight of 10 %% received %.1f %% of %d requests.", 100*share/float64(answers.Requests), answers.Requests))

	ns.kubectl("patch", "httptrigger/canary", "--type=merge", `--patch={"spec": {"backends": [{"function": "old", "weight": 0}, {"function": "new", "weight": 1}]}}`)
	ns.eventually("thirty consecutive requests go to the promoted Function", func() error {
		for range 30 {
			if r, err := traefik().call(t.Context(), http.MethodGet, address, ""); err != nil || r.Body != "new" {
				return fmt.Errorf("one is answered %d %q %s (%w)", r.Status, r.Body, r.Error, err)
			}
		}
		return nil
	})
	load = ns.loadOf(traefik(), 500, address)
	load.sent(1000)
	if answers := load.stop(); len(answers.Answers) != 1 {
		t.Errorf("after the promotion the responses were %v", answers.Answers)
	}
}

// The status contains what Traefik writes into the status of the route.
func testRejected(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t, anyExample)
	ns.ready(ns.apply(function("plain", answering("plain"), little)))
	for name, test := range map[string]struct{ ref, reason string }{
		"closed":  {"{name: closed, namespace: " + traefikNamespace + "}", "NotAllowedByListeners"},
		"section": {"{name: open, namespace: " + traefikNamespace + ", sectionName: other}", "NoMatchingParent"},
		"narrow":  {"{name: narrow, namespace: " + traefikNamespace + "}", "NoMatchingListenerHostname"},
	} {
		ns.expose(name, "plain", "", name+"-"+ns.name+".example.com", "parentRefs: ["+test.ref+"]")
		ns.triggerSays(name, "NotAccepted", "reports "+test.reason)
		ns.expose(name, "plain", "", name+"-"+ns.name+".example.com", kindsOfRoutes["Gateway"])
		ns.triggerSays(name, "Ready", "")
	}
	ns.expose("foreign", "plain", "", "bank.test")
	ns.triggerSays("foreign", "HostnameNotAllowed", "bank.test is not allowed in namespace "+ns.name)
	ns.expose("taken", "plain", "", "closed-"+ns.name+".example.com", kindsOfRoutes["Gateway"])
	ns.triggerSays("taken", "HostnameTaken", "HTTPTrigger closed")
	ns.replies(traefik(), "http://bank.test/", http.StatusNotFound, "")
	seen(t, "The reasons for which a Gateway rejects a route are in the status.")
}

// No request is lost when a hostname moves from an Ingress to a Gateway and back.
func testMove(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t, anyExample)
	ns.ready(ns.apply(function("moved", answering("moved"), little)))
	ns.expose("moved", "moved", "", ns.name+".example.com", kindsOfRoutes["Ingress"])
	ns.triggerSays("moved", "Ready", "")
	address := ns.kubectl("get", "httptrigger/moved", "--output=jsonpath={.status.url}")
	ns.replies(traefik(), address, http.StatusOK, "moved")

	load := ns.loadOf(traefik(), 100, address)
	load.sent(100)
	for _, step := range []struct{ patch, gone string }{
		{`{"spec": {"ingressClassName": null, "parentRefs": [{"name": "open", "namespace": "` + traefikNamespace + `"}]}}`, "ingress/moved"},
		{`{"spec": {"ingressClassName": "goless-e2e", "parentRefs": null}}`, "httproute/moved"},
	} {
		ns.kubectl("patch", "httptrigger/moved", "--type=merge", "--patch="+step.patch)
		ns.kubectl("wait", step.gone, "--for=delete", "--timeout="+patience.String())
		count, err := load.count()
		if err != nil {
			t.Fatal(err)
		}
		load.sent(count + 1000)
	}
	load.stop()
	seen(t, "No request was lost during a move from an Ingress to a Gateway and back.")
}

// TLS, gRPC, WebSockets, server-sent events and paths work, and so do timeouts of the Function.
func testProtocols(t *testing.T, kind, fields string) {
	t.Parallel()
	ns := newNamespace(t, anyExample)
	host := func(name string) string { return name + "-" + ns.name + ".example.com" }
	certificate, key := exampleCertificate(t)
	if kind == "Ingress" {
		ns.create(&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: "certificate"}, Type: corev1.SecretTypeTLS,
			Data: map[string][]byte{corev1.TLSCertKey: certificate, corev1.TLSPrivateKeyKey: key},
		})
		fields += "\n  tls: {secretName: certificate}"
	}
	for _, fn := range []*v1beta1.Function{
		readFunction(t, filepath.Join(repo, "examples", "grpc.yaml")), readFunction(t, filepath.Join(repo, "examples", "websocket.yaml")),
		function("protocols", protocols, little),
		function("hanging", neverResponds, little, func(spec *v1beta1.FunctionSpec) { spec.Timeout = &metav1.Duration{Duration: 2 * time.Second} }),
		function("paths", paths, little, serverPort(443)),
	} {
		fn = ns.ready(ns.apply(fn))
		path := ""
		if fn.Name == "paths" {
			path = "/reports"
		}
		ns.expose(fn.Name, fn.Name, path, host(fn.Name), fields)
		ns.triggerSays(fn.Name, "Ready", "")
	}
	if kind == "Ingress" { // see docs/how-to/expose.md
		ns.kubectl("annotate", "service/health", "traefik.ingress.kubernetes.io/service.serversscheme=h2c")
		ns.kubectl("annotate", "service/paths", "traefik.ingress.kubernetes.io/service.serversscheme=http")
	}

	client := outside(t)
	for _, want := range []struct {
		url    string
		status int
		body   string
	}{
		{host("protocols") + "/hello", http.StatusOK, "hello"},
		{host("paths") + "/reports", http.StatusOK, "/reports"},
		{host("paths") + "/reports/a/", http.StatusOK, "/reports/a/"},
		{host("paths") + "/reportsx", http.StatusNotFound, ""},
		{host("paths") + "/", http.StatusNotFound, ""},
		{host("hanging") + "/", http.StatusGatewayTimeout, "took too long"},
	} {
		ns.eventually(fmt.Sprintf("%s responds with %d %s", want.url, want.status, want.body), func() error {
			return respondsWith(t.Context(), client, "https://"+want.url, want.status, want.body)
		})
	}
	checkHealth(t, client, "https://"+host("health"))
	shout(t, client, "wss://"+host("shout"))
	checkEvents(t, client, "https://"+host("protocols")+"/events?n=3")
	seen(t, map[string]string{"Ingress": "With Ingresses", "Gateway": "With Gateways"}[kind]+": TLS, HTTP/2, paths, gRPC, WebSockets, server-sent events, timeouts of functions.")
}

// neverResponds waits until the function times out.
const neverResponds = `package handlers

import "net/http"

func Handler(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
`

// paths responds with the path of the request.
const paths = `package handlers

import (
	"io"
	"net/http"
)

func Handler(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.URL.Path) }
`

// outside returns a client on this machine whose requests go to Traefik, regardless of the host of
// their URL.
func outside(t *testing.T) *http.Client {
	t.Helper()
	roots := x509.NewCertPool()
	certificate, _ := exampleCertificate(t)
	roots.AppendCertsFromPEM(certificate)
	address := forward(t, traefikNamespace, "service/traefik", "websecure")
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: true,
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, address)
		},
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// respondsWith returns an error unless a URL responds over HTTP/2 with a status and a part.
func respondsWith(ctx context.Context, client *http.Client, url string, status int, part string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	body, err := io.ReadAll(response.Body)
	if err := errors.Join(err, response.Body.Close()); err != nil {
		return err
	}
	if response.StatusCode != status || !strings.Contains(string(body), part) || response.ProtoMajor != 2 {
		return fmt.Errorf("it answers %s %d %q", response.Proto, response.StatusCode, body)
	}
	return nil
}

// checkEvents fails the test unless the events of a URL arrive when they are sent.
func checkEvents(t *testing.T, client *http.Client, url string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close() //nolint:errcheck // the events have arrived
	var first time.Time
	n := 0
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "data:") {
			if n++; n == 1 {
				first = time.Now()
			}
		}
	}
	if took := time.Since(first); n != 3 || took < time.Second {
		t.Errorf("%d events arrived within %s, want 3 with a second between them", n, took)
	}
}

// A sleeping function wakes, falls asleep and is updated without lost requests.
func testSleep(t *testing.T, kind, fields string) {
	t.Parallel()
	ns := newNamespace(t, anyExample)
	fn := ns.ready(ns.apply(function("sleepy", answering("awake"), sleeping, little)))
	ns.expose("sleepy", "sleepy", "", ns.name+".example.com", fields)
	ns.triggerSays("sleepy", "Ready", "")
	address := ns.kubectl("get", "httptrigger/sleepy", "--output=jsonpath={.status.url}")
	ns.replies(traefik(), address, http.StatusOK, "awake")

	fn = ns.asleep(fn)
	load := ns.loadOf(traefik(), 40, address)
	load.sent(500)
	fn = ns.ready(ns.change(fn, source(answering("updated"))))
	ns.eventually("the update is served", func() error {
		r, err := traefik().call(t.Context(), http.MethodGet, address, "")
		if err == nil && r.Body != "updated" {
			err = fmt.Errorf("it answers %d %q", r.Status, r.Body)
		}
		return err
	})
	load.sent(1500)
	load.stop()

	if err := ns.fallsAsleep(fn); err != nil {
		t.Fatal(err)
	}
	load = ns.loadOf(traefik(), 40, address)
	load.sent(1000)
	load.stop()
	seen(t, map[string]string{"Ingress": "With Ingresses", "Gateway": "With Gateways"}[kind]+", no request was lost while a function woke, was updated, and fell asleep.")
}
