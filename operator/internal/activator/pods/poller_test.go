package pods

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

// blocked is a pod that answers when it is told to. asked has a value for each question.
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

// Whoever takes an answer never waits for a pod, however many do not answer, and an answer is taken once.
func TestPollerDoesNotWait(t *testing.T) {
	patient(t)
	p := NewPoller()
	var answers []func()
	for i := range 3 {
		pod, asked, answer := blocked(t)
		if _, ok, wait := p.Take(types.NamespacedName{Name: fmt.Sprint(i)}, []Pod{pod}); ok || wait != 0 {
			t.Errorf("before it was asked: %t, again after %s", ok, wait)
		}
		<-asked // all of them at the same time
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

// patient lets pods take as long as a busy machine needs.
func patient(t *testing.T) {
	t.Helper()
	before := adminClient.Timeout
	adminClient.Timeout = pollTimeout
	t.Cleanup(func() { adminClient.Timeout = before })
}

// An answer is not taken for other pods, nor when it is old.
func TestPollerForgets(t *testing.T) {
	patient(t)
	p := NewPoller()
	old, other := []Pod{idleFor(t, 0, 60)}, []Pod{idleFor(t, 0, 60)}
	p.Take(hello, old)
	<-p.Answered
	if _, ok, _ := p.Take(hello, other); ok {
		t.Error("the answer of a pod is taken for another one")
	}
	<-p.Answered
	p.polls[hello].answered = time.Now().Add(-maxAge - time.Second)
	if _, ok, _ := p.Take(hello, other); ok {
		t.Error("an old answer is taken")
	}
	<-p.Answered
	if _, ok, _ := p.Take(hello, other); !ok {
		t.Error("there is no answer")
	}
}

// Pods that do not answer are asked after pauses that grow, up to a bound, and that is reported unless it
// passes soon.
func TestPollerBacksOff(t *testing.T) {
	patient(t)
	p := NewPoller()
	bad, good := []Pod{admin(t, http.StatusForbidden, "denied")}, []Pod{idleFor(t, 0, 60)}
	for n := range quietFailures + 2 {
		p.Take(hello, bad)
		<-p.Answered
		if a, ok, _ := p.Take(hello, bad); !ok || a.Err == nil {
			t.Fatalf("%+v, %t", a, ok)
		}
		if left := time.Until(p.polls[hello].next); left > backoff(n+1) {
			t.Errorf("after %d errors they are asked again in %s", n+1, left)
		}
		p.polls[hello].next = time.Now().Add(time.Hour)
		if _, ok, wait := p.Take(hello, bad); ok || wait < time.Minute || p.polls[hello].asking {
			t.Errorf("it asks again at once: %t, again after %s", ok, wait)
		}
		if got := p.Trouble(hello); (got != "") != (n >= quietFailures) || got != "" && !strings.Contains(got, "status 403; a service mesh") {
			t.Errorf("after %d errors it says %q", n+1, got)
		}
		p.polls[hello].next = time.Time{}
	}
	p.Take(hello, good)
	<-p.Answered
	if got := p.Trouble(hello); got != "" {
		t.Errorf("once they answer it says %q", got)
	}
}

func TestBackoff(t *testing.T) {
	for failures, want := range map[int]time.Duration{1: minBackoff, 2: 2 * minBackoff, 3: 4 * minBackoff, 9: maxBackoff, 1000: maxBackoff} {
		if got := backoff(failures); got != want {
			t.Errorf("after %d errors the pause is %s, want %s", failures, got, want)
		}
	}
}
