package kubectl

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// TestWatchEnds cancels the context in the body of a loop that then ends itself. The kubectl of
// this test is a script, because only the iterator is tested.
func TestWatchEnds(t *testing.T) {
	dir := t.TempDir()
	script := "#!/bin/sh\necho '{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"hello\"}}}'\nexec sleep 60\n"
	if err := os.WriteFile(filepath.Join(dir, "kubectl"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for event, err := range (&Client{}).Watch(ctx, &Function{}) {
		if err != nil || event.Object.Metadata.Name != "hello" {
			t.Fatalf("got %+v, %v, want the event of hello", event, err)
		}
		cancel()
		break
	}
}

// Each case contains EndpointSlices of a function with the pods new and old, the latter of which is being
// deleted.
func TestRoutesAreCurrent(t *testing.T) {
	const (
		latest    = `{"endpoints":[{"conditions":{"ready":true},"targetRef":{"name":"new"}}]}`
		deleted   = `{"endpoints":[{"conditions":{"ready":true},"targetRef":{"name":"old"}}]}`
		ending    = `{"endpoints":[{"conditions":{"ready":false},"targetRef":{"name":"old"}}]}`
		activator = `{"metadata":{"labels":{"endpointslice.kubernetes.io/managed-by":"goless-activator"}},` +
			`"endpoints":[{"conditions":{"ready":true},"targetRef":{"name":"goless-activator-a"}}]}`
	)
	for slices, want := range map[string]bool{
		``:                        false,
		latest:                    true,
		activator:                 true, // the function sleeps
		ending:                    false,
		latest + `,` + ending:     true,
		latest + `,` + deleted:    false,
		activator + `,` + latest:  true,
		activator + `,` + deleted: false,
	} {
		var s endpointSlices
		if err := json.Unmarshal([]byte(`{"items":[`+slices+`]}`), &s); err != nil {
			t.Fatal(err)
		}
		if got := s.areCurrent(map[string]bool{"new": true, "old": false}); got != want {
			t.Errorf("%s: got %t", slices, got)
		}
	}
}
