package backend

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// blocked returns a pod that responds after answer is called. asked receives a value for each
// query.
func blocked(t *testing.T) (p Pod, asked chan bool, answer func()) {
	t.Helper()
	asked, free := make(chan bool, 1), make(chan bool)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked <- true
		<-free
		_, _ = io.WriteString(w, `{"idleSeconds":60}`)
	}))
	t.Cleanup(server.Close)
	return Pod{Admin: server.Listener.Addr().String(), Ready: true}, asked, func() { close(free) }
}

var hello = types.NamespacedName{Namespace: "default", Name: "hello"}

// Take does not block on slow pods, and returns each result once.
func TestPollerDoesNotBlock(t *testing.T) {
	extendTimeouts(t)
	p := NewPoller()
	var answers []func()
	for i := range 3 {
		pod, asked, answer := blocked(t)
		if _, ok, wait := p.Take(types.NamespacedName{Name: fmt.Sprint(i)}, []Pod{pod}); ok || wait != 0 {
			t.Errorf("before the first poll: result %t, retry after %s", ok, wait)
		}
		<-asked // polls run concurrently
		answers = append(answers, answer)
	}
	for _, answer := range answers {
		answer()
	}
	for range answers {
		service := (<-p.Answered).Object
		known := p.polls[service]
		pods := []Pod{{Admin: known.admins[0], Ready: true}}
		if a, ok, _ := p.Take(service, pods); !ok || a.Err != nil || a.Idle < 59*time.Second-pollTimeout || a.Idle > time.Minute || a.At.IsZero() {
			t.Errorf("%s: %+v, %t", service, a, ok)
		}
		p.Forget(service)
	}
}

// extendTimeouts raises the query timeout for slow machines.
func extendTimeouts(t *testing.T) {
	t.Helper()
	before := adminClient.Timeout
	adminClient.Timeout = pollTimeout
	t.Cleanup(func() { adminClient.Timeout = before })
}

// A result is not returned for other pods or after it has expired.
func TestPollerResultExpires(t *testing.T) {
	extendTimeouts(t)
	p := NewPoller()
	old, other := []Pod{idleFor(t, 0, 60)}, []Pod{idleFor(t, 0, 60)}
	p.Take(hello, old)
	<-p.Answered
	if _, ok, _ := p.Take(hello, other); ok {
		t.Error("the result of another pod is returned")
	}
	<-p.Answered
	p.polls[hello].received = time.Now().Add(-maxAge - time.Second)
	if _, ok, _ := p.Take(hello, other); ok {
		t.Error("an expired result is returned")
	}
	<-p.Answered
	if _, ok, _ := p.Take(hello, other); !ok {
		t.Error("no result")
	}
}

// Failed polls are repeated with a growing, bounded delay. The first failures are not reported.
func TestPollerBacksOff(t *testing.T) {
	extendTimeouts(t)
	p := NewPoller()
	bad, good := []Pod{admin(t, http.StatusForbidden, "denied")}, []Pod{idleFor(t, 0, 60)}
	for n := range toleratedFailures + 2 {
		p.Take(hello, bad)
		<-p.Answered
		if a, ok, _ := p.Take(hello, bad); !ok || a.Err == nil {
			t.Fatalf("%+v, %t", a, ok)
		}
		if left := time.Until(p.polls[hello].next); left > backoff(n+1) {
			t.Errorf("after %d failures the next poll is in %s", n+1, left)
		}
		p.polls[hello].next = time.Now().Add(time.Hour)
		if _, ok, wait := p.Take(hello, bad); ok || wait < time.Minute || p.polls[hello].polling {
			t.Errorf("repeated poll: result %t, retry after %s", ok, wait)
		}
		if got := p.LastError(hello); (got != "") != (n >= toleratedFailures) || got != "" && !strings.Contains(got, "status 403; a service mesh") {
			t.Errorf("after %d failures: LastError %q", n+1, got)
		}
		p.polls[hello].next = time.Time{}
	}
	p.Take(hello, good)
	<-p.Answered
	if got := p.LastError(hello); got != "" {
		t.Errorf("after a response: LastError %q", got)
	}
}

func TestBackoff(t *testing.T) {
	for failures, want := range map[int]time.Duration{1: minBackoff, 2: 2 * minBackoff, 3: 4 * minBackoff, 9: maxBackoff, 1000: maxBackoff} {
		if got := backoff(failures); got != want {
			t.Errorf("after %d failures: backoff %s, want %s", failures, got, want)
		}
	}
}
