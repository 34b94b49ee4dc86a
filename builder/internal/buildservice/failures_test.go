package buildservice

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"goless.io/builder"
	"goless.io/builder/buildapi"
)

// TestLongBuildsDelayNobody has two tenants order eight builds each with the maximum timeout, and
// another tenant a simple one.
func TestLongBuildsDelayNobody(t *testing.T) {
	r := newReplica(t, Config{Parallel: 3})
	ctx, stop := context.WithCancel(t.Context())
	var building sync.WaitGroup
	for _, namespace := range []string{"team-a", "team-b"} {
		for i := range 8 {
			o := buildapi.Order{Namespace: namespace, Source: fmt.Sprintf("%s// %d\n", endless, i), Timeout: 10 * time.Minute}
			accepted := make(chan struct{})
			accept := sync.OnceFunc(func() { close(accepted) })
			building.Go(func() {
				_, err := r.client.Build(ctx, o, func(buildapi.Event) { accept() })
				if err == nil {
					t.Error("what does not end has ended")
				}
			})
			<-accepted
		}
	}
	for i := range 2 {
		o := buildapi.Order{Namespace: "team-c", Source: source(t, fmt.Sprintf("// %d\n", i))}
		if _, report := r.build(t, o); report.Reason != builder.Built {
			t.Errorf("the report: %+v, want Built", report)
		}
	}
	if made := r.log.builds(t); !slices.Equal(made, []string{"Built", "Built"}) {
		t.Errorf("builds: %q, want those of the third tenant before any other has ended", made)
	}
	stop()
	building.Wait()
}

// TestRestart stops a replica and starts another one with the same disk. Lost results are built
// again.
func TestRestart(t *testing.T) {
	r := newReplica(t, Config{})
	o := buildapi.Order{Namespace: "team-a", Source: source(t, "")}
	key, _ := r.build(t, o)
	r.end()
	r = newReplica(t, Config{Store: r.config.Store})
	r.missing(t, key, "binary not found")
	r.build(t, o)
	r.binary(t, key)
}

// TestResultsDeleted orders builds again after their binaries, and then the whole store, were
// deleted.
func TestResultsDeleted(t *testing.T) {
	r := newReplica(t, Config{})
	t.Setenv("TMPDIR", t.TempDir())
	o := buildapi.Order{Namespace: "team-a", Source: source(t, "")}
	key, _ := r.build(t, o)
	for _, deleted := range [][]string{{r.store.path(key)}, {r.config.Store, os.TempDir()}} {
		for _, path := range deleted {
			if err := os.RemoveAll(path); err != nil {
				t.Fatal(err)
			}
		}
		if _, report := r.build(t, o); report.Reason != builder.Built {
			t.Fatalf("without %q: %s, %s", deleted, report.Reason, report.Message)
		}
		r.binary(t, key)
	}
	if made := r.log.builds(t); len(made) != 3 {
		t.Errorf("builds: %q, want three", made)
	}
}

// TestEndInBuild stops a replica during a build. Waiting clients get a response immediately and can
// use another replica.
func TestEndInBuild(t *testing.T) {
	r := newReplica(t, Config{})
	o := buildapi.Order{Namespace: "team-a", Source: endless}
	var waiting sync.WaitGroup
	accepted := make(chan struct{})
	accept := sync.OnceFunc(func() { close(accepted) })
	waiting.Go(func() {
		_, err := r.client.Build(t.Context(), o, func(buildapi.Event) { accept() })
		if err == nil || t.Context().Err() != nil {
			t.Errorf("Build: %v, want an error because it has ended", err)
		}
		if _, isStatus := errors.AsType[*buildapi.StatusError](err); isStatus {
			t.Errorf("Build: %v, want what says to ask again", err)
		}
	})
	<-accepted
	await(t, "the compiler works", func() bool { return working(t) })
	waiting.Go(func() {
		got := r.fetch(t, r.key(o), 60)
		if got.status != http.StatusServiceUnavailable || got.header.Get("Retry-After") == "" {
			t.Errorf("fetching: %d, %s, want 503 and when to come back", got.status, got.body)
		}
	})
	await(t, "the pod waits", func() bool { return r.waiting(r.key(o)) == 2 })
	r.end()
	waiting.Wait()
	if working(t) {
		t.Error("the compiler goes on")
	}
	if made := r.log.builds(t); !slices.Equal(made, []string{"Cancelled"}) {
		t.Errorf("builds: %q, want one that was cancelled", made)
	}
}

// working reports whether a child of this process runs a compiler.
func working(t *testing.T) bool {
	t.Helper()
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", os.Getpid()))
	if err == nil && len(children) > 0 {
		return true
	}
	// Another thread may have started it.
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Skipf("finding the compiler needs /proc: %v", err)
	}
	for _, thread := range threads {
		if children, err := os.ReadFile("/proc/self/task/" + thread.Name() + "/children"); err == nil && len(children) > 0 {
			return true
		}
	}
	return false
}

// TestBusy fills the queue. A namespace that has used its share is rejected. A namespace without
// queued builds is accepted, and the newest build of another namespace is dropped, whose client
// gets the same response as if it had been rejected.
func TestBusy(t *testing.T) {
	r := newReplica(t, Config{Parallel: 1})
	hold(t, r.queue, 1)
	for namespace, builds := range map[string]int{"team-a": maxQueue / 4, "team-b": maxQueue / 4, "team-c": maxQueue / 4, "team-d": maxQueue/4 - 1} {
		for range builds {
			if _, err := r.queue.enter(namespace, 1, false); err != nil {
				t.Fatal(err)
			}
		}
	}
	isBusy := func(err error) bool {
		status, ok := errors.AsType[*buildapi.StatusError](err)
		return ok && errors.Is(err, buildapi.ErrBusy) && status.RetryAfter > 0
	}
	if _, err := r.client.Build(t.Context(), buildapi.Order{Namespace: "team-a", Source: source(t, "")}, nil); !isBusy(err) {
		t.Errorf("Build for the namespace with the most: %v, want ErrBusy and when to come back", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var asking sync.WaitGroup
	accepted := make(chan struct{}, 2)
	asking.Go(func() {
		_, err := r.client.Build(ctx, buildapi.Order{Namespace: "team-d", Source: source(t, "// last\n")}, func(buildapi.Event) { accepted <- struct{}{} })
		if !isBusy(err) {
			t.Errorf("Build that was dropped: %v, want ErrBusy and when to come back", err)
		}
	})
	<-accepted
	modest, leave := context.WithCancel(t.Context())
	defer leave()
	_, err := r.client.Build(modest, buildapi.Order{Namespace: "team-z", Source: source(t, "")}, func(buildapi.Event) { leave() })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Build for a namespace that has nothing waiting: %v, want that it is accepted", err)
	}
	asking.Wait()
}
