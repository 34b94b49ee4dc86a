package e2e

import (
	_ "embed" // the source of the test of protocols
	"fmt"
	"net/http"
	neturl "net/url"
	"strconv"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"goless.io/operator/api/v1beta1"
)

// A request may arrive at any moment while a function falls asleep: while nodes learn that the
// activators receive its requests, while its pod drains, and when it is gone. It is answered.
func TestSleepCalledMeanwhile(t *testing.T) {
	t.Parallel()
	const functions, rounds = 25, 2
	const longest = 28 * time.Second // 15 for the nodes, the rest for the next check and the termination of the pod
	ns := newNamespace(t)
	var all []*v1beta1.Function
	for i := range functions {
		all = append(all, ns.apply(function(fmt.Sprintf("falling-%d", i), answering("awake"), sleeping, little)))
	}
	var group sync.WaitGroup
	defer group.Wait()
	for i, fn := range all {
		fn = ns.ready(fn)
		ns.answers(fn, "awake")
		group.Go(func() {
			for round := range rounds {
				after := time.Duration(rounds*i+round) * longest / (functions * rounds)
				if err := ns.fallsAsleep(fn); err != nil {
					t.Error(err)
					return
				}
				time.Sleep(after)
				r, err := caller.call(t.Context(), http.MethodGet, url(fn), "")
				if err != nil || r.Status != http.StatusOK || r.Body != "awake" {
					t.Errorf("%s, %s after it began to fall asleep: a request got %d %q %s (%v)", fn.Name, after, r.Status, r.Body, r.Error, err)
				}
			}
		})
	}
}

// little has requests so small that many of them fit on a small node.
func little(spec *v1beta1.FunctionSpec) {
	spec.Resources = &v1beta1.Resources{Requests: v1beta1.Amounts{CPU: new(resource.MustParse("10m"))}}
}

//go:embed testdata/protocols/handler.go
var protocols string

// Every protocol over HTTP wakes a function, continues while the activators are removed from
// the path of its requests, and keeps the function awake.
func TestSleepProtocols(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	// On a busy machine, the request that wakes the function may take long.
	patient := func(spec *v1beta1.FunctionSpec) { spec.Timeout = &metav1.Duration{Duration: 3 * time.Minute} }
	client := ns.apply(function("client", protocols, patient))
	servers := map[string]*v1beta1.Function{}
	for _, protocol := range []string{"keep-alive", "h2c", "events", "stream", "upload", "upgrade"} {
		servers[protocol] = ns.apply(function(protocol, protocols, sleeping, little, patient))
	}
	client = ns.ready(client)
	ns.reach(client)
	for protocol, fn := range servers {
		servers[protocol] = ns.asleep(ns.ready(fn))
	}
	// speak returns an error unless all exchanges succeeded. Clients reuse their connections.
	speak := func(protocol string, messages int) error {
		query := neturl.Values{"protocol": {protocol}, "server": {url(servers[protocol])}, "n": {strconv.Itoa(messages)}}
		r, err := caller.call(t.Context(), http.MethodGet, url(client)+"/speak?"+query.Encode(), "")
		if err == nil && r.Status != http.StatusOK {
			err = fmt.Errorf("%d %s %s", r.Status, r.Body, r.Error)
		}
		return err
	}
	// At one message per second, it ends after the activators are removed, and later than a
	// function without requests would sleep.
	const messages = 40
	var group sync.WaitGroup
	for protocol := range servers {
		group.Go(func() {
			if err := speak(protocol, messages); err != nil {
				t.Errorf("%s: %v", protocol, err)
			}
		})
	}
	group.Wait()
	for _, protocol := range []string{"keep-alive", "h2c"} {
		servers[protocol] = ns.asleep(servers[protocol])
		if err := speak(protocol, 1); err != nil {
			t.Errorf("%s, after the function slept again: %v", protocol, err)
		}
	}
}
