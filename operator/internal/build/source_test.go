package build

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"goless.io/builder/remote"
	"goless.io/operator/internal/build/buildtest"
)

// The source of a Function that does not compile is not kept: it is not sent again.
func TestSourceThatDoesNotCompileIsDropped(t *testing.T) {
	keys, err := remote.NewKeys(make([]byte, remote.SeedSize))
	if err != nil {
		t.Fatal(err)
	}
	service := buildtest.New(func() (*remote.Keys, error) { return keys, nil })
	t.Cleanup(service.Close)
	service.Set(t, func(remote.Order) buildtest.Reply { return buildtest.Reply{Report: `{"reason":"CompileFailed"}`} })
	orders := New(&Service{last: &connection{url: service.URL, keys: keys, client: remote.NewClient(service.URL, keys)}})
	fn, wanted := types.NamespacedName{Namespace: "team", Name: "f"}, remote.Order{Namespace: "team", Source: "package handlers\n", Memory: 1 << 20}
	orders.Add(fn, "1", wanted)
	t.Cleanup(func() { orders.Keep(fn, nil) })
	<-orders.changed // which says that it does not compile

	source := func() string {
		orders.mu.Lock()
		defer orders.mu.Unlock()
		return orders.byFunction[fn]["1"].Source
	}
	for deadline := time.Now().Add(time.Minute); source() != ""; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("after a minute the source is still there")
		}
	}
	if !orders.Has(fn, "1", wanted) {
		t.Error("the order is not known any more, and would be sent again")
	}
}
