package kubectl

import (
	"context"
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
