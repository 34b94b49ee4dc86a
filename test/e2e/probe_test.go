package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"goless.io/operator/api/v1beta1"
)

// A probe sends requests from inside the cluster. It is the Function of testdata/probe.yaml.
// Its requests go to the host of their URL, or to via if it is set.
type probe struct{ namespace, via string }

// A reply is the result of one request. Error is empty if there was a response.
type reply struct {
	Status int
	Header http.Header
	Body   string
	Error  string
}

// Traffic is the result of constant requests.
type traffic struct {
	Requests, Failures int
	Errors             []string
	Median, P99        time.Duration // of the time to the end of an answer
	Answers            map[string]struct {
		Count       int
		First, Last time.Time
	}
}

// strays counts failures that Goless does not cause: a new connection is occasionally refused
// while kube-proxy replaces the node's nftables rules. A server that stops listening too early
// causes many more.
func (t traffic) strays() int {
	if slices.ContainsFunc(t.Errors, func(e string) bool { return !strings.Contains(e, "connect: connection refused") }) {
		return 0
	}
	return 1 + t.Requests/50_000
}

func startProbe(ctx context.Context) (*probe, error) {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "goless-e2e-probe-"}}
	if err := cluster.Create(ctx, namespace); err != nil {
		return nil, err
	}
	p := &probe{namespace: namespace.Name}
	_, err := kubectl(ctx, "-n", p.namespace, "apply", "-f", "testdata/probe.yaml")
	if err == nil {
		_, err = kubectl(ctx, "-n", p.namespace, "wait", "--for=condition=Ready", "function/probe", "--timeout="+patience.String())
	}
	if err != nil {
		state, _ := kubectl(ctx, "-n", p.namespace, "get", "functions,pods,events", "-o", "wide")
		status, _ := kubectl(ctx, "-n", p.namespace, "get", "function/probe", "-o", "jsonpath={.status}")
		p.remove()
		return nil, fmt.Errorf("%w\n%s%s", err, state, status)
	}
	return p, nil
}

func (p *probe) remove() {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: p.namespace}}
	_ = cluster.Delete(context.Background(), namespace) // the next run creates its own
}

// request sends a request to the probe itself, through the API server.
func (p *probe) request(method, path string) *rest.Request {
	r := kube.CoreV1().RESTClient().Verb(method).
		Namespace(p.namespace).Resource("services").Name("http:probe:8080").SubResource("proxy").Suffix(path)
	if p.via != "" {
		r.Param("via", p.via)
	}
	return r
}

// call sends one request, as soon as the API server reaches the probe.
func (p *probe) call(ctx context.Context, method, url, body string) (reply, error) {
	var data []byte
	err := patientlyIf(ctx, unreachedProbe, func() (err error) {
		request := p.request(method, "call").Param("url", url)
		if body != "" {
			request.Body([]byte(body))
		}
		data, err = request.DoRaw(ctx)
		return err
	})
	if err != nil {
		return reply{}, fmt.Errorf("asking the probe: %w: %s", err, data)
	}
	var r reply
	return r, errors.Join(json.Unmarshal(data, &r))
}

// unreachedProbe reports whether the request did not reach the probe.
func unreachedProbe(err error) bool {
	return apierrors.IsServiceUnavailable(err) &&
		(strings.Contains(err.Error(), "no endpoints available") || strings.Contains(err.Error(), "connection refused"))
}

// call sends one request to a URL in the cluster, and fails the test if there is no response.
// It retries if the connection is refused, because a node learns of the pods of a Service with
// a delay, and if there is no route to the Service, because it also learns of Services with a delay.
func (ns *namespace) call(method, url, body string) (r reply) {
	ns.t.Helper()
	ns.eventually(method+" "+url+" is connected", func() (err error) {
		if r, err = caller.call(ns.t.Context(), method, url, body); err != nil {
			ns.t.Fatal(err)
		}
		if strings.Contains(r.Error, "connection refused") || strings.Contains(r.Error, "no route to host") {
			return errors.New(r.Error)
		}
		return nil
	})
	if r.Error != "" {
		ns.t.Fatalf("%s %s: %s", method, url, r.Error)
	}
	return r
}

// reach waits until the ports of a Function's Service are reachable, because a node learns of
// the pods of a Service with a delay.
func (ns *namespace) reach(fn *v1beta1.Function) {
	ns.t.Helper()
	for _, address := range []string{url(fn), adminURL(fn)} {
		ns.eventually(address+" can be reached", func() error {
			r, err := caller.call(ns.t.Context(), http.MethodOptions, address+"/reach", "")
			if err == nil && r.Error != "" {
				err = errors.New(r.Error)
			}
			return err
		})
	}
}

// answers waits until a Function gives the answer. Old pods may still receive requests shortly
// after new ones are ready.
func (ns *namespace) answers(fn *v1beta1.Function, want string) {
	ns.t.Helper()
	ns.eventually(fmt.Sprintf("%s responds with %q", url(fn), want), func() error {
		r, err := caller.call(ns.t.Context(), http.MethodGet, url(fn), "")
		if err != nil {
			return err
		}
		if r.Status != http.StatusOK || r.Body != want {
			return fmt.Errorf("it answers %d %q %s", r.Status, r.Body, r.Error)
		}
		return nil
	})
}

// eventually retries until there is no error, for conditions that cannot be watched.
func (ns *namespace) eventually(what string, try func() error) {
	ns.t.Helper()
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	deadline := time.After(patience)
	for {
		err := try()
		if err == nil {
			return
		}
		select {
		case <-again.C:
		case <-deadline:
			ns.t.Fatalf("timed out after %s waiting until %s: %v", patience, what, err)
		}
	}
}

// load sends constant requests to a Function, over old and new connections, until stop is
// called.
func (ns *namespace) load(fn *v1beta1.Function) (stop func() traffic) {
	ns.t.Helper()
	return ns.loadAt(fn, 80).stop
}

// A load is constant traffic from the probe to a Function.
type load struct {
	ns *namespace
	id string
}

// loadAt is like load with a rate per second, which may be lower on a slow machine.
func (ns *namespace) loadAt(fn *v1beta1.Function, rate int) load {
	ns.t.Helper()
	return ns.loadOf(caller, rate, url(fn))
}

// loadOf is like loadAt for several URLs, each of which receives an equal share of the
// requests.
func (ns *namespace) loadOf(p *probe, rate int, urls ...string) load {
	ns.t.Helper()
	workers := max(1, (4+rate/100)/len(urls)) // for each
	request := p.request(http.MethodPost, "start").Param("workers", strconv.Itoa(workers)).Param("rps", strconv.Itoa(rate))
	for _, url := range urls {
		request.Param("url", url)
	}
	id, err := request.DoRaw(ns.t.Context())
	if err != nil {
		ns.t.Fatalf("starting the traffic: %v: %s", err, id)
	}
	return load{ns, string(id)}
}

// sent waits until at least n requests were sent. It allows time for each thousand of them,
// because the rate depends on the machine.
func (l load) sent(n int) {
	l.ns.t.Helper()
	for next := min(n, 1000); ; next = min(n, next+1000) {
		l.ns.eventually(fmt.Sprintf("%d requests were sent", next), func() error {
			count, err := l.count()
			if err == nil && count < next {
				err = fmt.Errorf("there were %d", count)
			}
			return err
		})
		if next == n {
			return
		}
	}
}

// count returns the number of requests answered so far.
func (l load) count() (int, error) {
	data, err := caller.request(http.MethodGet, "count").Param("id", l.id).DoRaw(l.ns.t.Context())
	if err != nil {
		return 0, fmt.Errorf("%w: %s", err, data)
	}
	return strconv.Atoi(string(data))
}

// stop ends the traffic and fails the test if a request failed. It first waits for some more
// requests, because on a busy machine none may have been sent since the last change.
func (l load) stop() traffic {
	l.ns.t.Helper()
	const more = 50
	before := -1
	l.ns.eventually("more requests were sent", func() error {
		count, err := l.count()
		if err == nil && before < 0 {
			before = count
		}
		if err == nil && count < before+more {
			err = fmt.Errorf("there were %d, and %d before", count, before)
		}
		return err
	})
	data, err := caller.request(http.MethodPost, "stop").Param("id", l.id).DoRaw(l.ns.t.Context())
	if err != nil {
		l.ns.t.Fatalf("stopping the traffic: %v: %s", err, data)
	}
	var all traffic
	if err := json.Unmarshal(data, &all); err != nil {
		l.ns.t.Fatal(err)
	}
	if all.Failures > all.strays() {
		l.ns.t.Errorf("%d of %d requests failed:\n%s", all.Failures, all.Requests, strings.Join(all.Errors, "\n"))
	}
	l.ns.t.Logf("%d requests, %d failed, median %s, 99th percentile %s", all.Requests, all.Failures, all.Median, all.P99)
	return all
}
