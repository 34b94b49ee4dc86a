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

// A probe sends requests from inside the cluster. It is a Function itself:
// testdata/probe.yaml. Its requests go to the host of their URL, or to via where that
// is given.
type probe struct{ namespace, via string }

// A reply is what came back of one request. Error is empty when something did.
type reply struct {
	Status int
	Header http.Header
	Body   string
	Error  string
}

// Traffic is what came of constant requests.
type traffic struct {
	Requests, Failures int
	Errors             []string
	Median, P99        time.Duration // of the time to the end of an answer
	Answers            map[string]struct {
		Count       int
		First, Last time.Time
	}
}

// strays are failures that nobody in the cluster is to blame for: a new connection is
// refused now and then in the very moment in which kube-proxy exchanges the node's
// nftables rules, whatever it leads to. A server that stops listening too early is met
// by many more, and at any moment.
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
	_ = cluster.Delete(context.Background(), namespace) // the next run makes its own
}

// request is one to the probe itself, which the API server forwards.
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

// unreachedProbe is that the probe has not got a request.
func unreachedProbe(err error) bool {
	return apierrors.IsServiceUnavailable(err) &&
		(strings.Contains(err.Error(), "no endpoints available") || strings.Contains(err.Error(), "connection refused"))
}

// call sends one request to a URL inside the cluster, and fails the test when
// nothing comes back. One that is refused has reached nobody and is sent again: a
// node learns with a delay where the pods of a Service are.
func (ns *namespace) call(method, url, body string) (r reply) {
	ns.t.Helper()
	ns.eventually(method+" "+url+" is not refused", func() (err error) {
		if r, err = caller.call(ns.t.Context(), method, url, body); err != nil {
			ns.t.Fatal(err)
		}
		if strings.Contains(r.Error, "connection refused") {
			return errors.New(r.Error)
		}
		return nil
	})
	if r.Error != "" {
		ns.t.Fatalf("%s %s: %s", method, url, r.Error)
	}
	return r
}

// reach waits until the ports of a Function's Service can be: a node learns with
// a delay where the pods of a Service are.
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

// answers waits until a Function gives the answer: as above, and the old pods are
// asked for a while after the new ones are ready.
func (ns *namespace) answers(fn *v1beta1.Function, want string) {
	ns.t.Helper()
	ns.eventually(fmt.Sprintf("%s answers %q", url(fn), want), func() error {
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

// eventually is for what cannot be watched: it tries until there is no error.
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
			ns.t.Fatalf("waited %s in vain until %s: %v", patience, what, err)
		}
	}
}

// load sends constant requests to a Function, over old connections and new ones,
// until stop is called.
func (ns *namespace) load(fn *v1beta1.Function) (stop func() traffic) {
	ns.t.Helper()
	return ns.loadAt(fn, 80).stop
}

// A load is constant traffic from the probe to a Function.
type load struct {
	ns *namespace
	id string
}

// loadAt is load with a number of requests a second, of which there are fewer
// where the machine cannot keep up.
func (ns *namespace) loadAt(fn *v1beta1.Function, rate int) load {
	ns.t.Helper()
	return ns.loadOf(caller, rate, url(fn))
}

// loadOf is loadAt for URLs, each of which gets an equal part of the requests.
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

// sent waits until there were at least n requests. Each thousand of them may take
// its time: how many there are in a second is for the machine to decide.
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

// count is how many requests were answered by now.
func (l load) count() (int, error) {
	data, err := caller.request(http.MethodGet, "count").Param("id", l.id).DoRaw(l.ns.t.Context())
	if err != nil {
		return 0, fmt.Errorf("%w: %s", err, data)
	}
	return strconv.Atoi(string(data))
}

// stop ends the traffic and fails the test if a request failed. It lets some more
// be sent first: on a busy machine none may have met yet what the test has seen.
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
