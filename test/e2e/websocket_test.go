package e2e

import (
	"net/http"
	"path/filepath"
	"testing"

	"github.com/coder/websocket"
)

// A WebSocket connection reaches the function of the example.
func TestWebsocket(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	fn := ns.ready(ns.apply(readFunction(t, filepath.Join("..", "..", "examples", "websocket.yaml"))))
	ns.reach(fn)
	shout(t, http.DefaultClient, "ws://"+forward(t, ns.name, "service/"+fn.ServiceName(), "http"))
}

// shout exchanges messages with the function of examples/websocket.yaml at a URL.
func shout(t *testing.T, client *http.Client, url string) {
	t.Helper()
	c, _, err := websocket.Dial(t.Context(), url, &websocket.DialOptions{HTTPClient: client}) //nolint:bodyclose // it need not be
	if err != nil {
		t.Fatal(err)
	}
	defer c.CloseNow() //nolint:errcheck // the test is over
	for said, want := range map[string]string{"hello": "HELLO", "again": "AGAIN"} {
		if err := c.Write(t.Context(), websocket.MessageText, []byte(said)); err != nil {
			t.Fatal(err)
		}
		if _, got, err := c.Read(t.Context()); err != nil || string(got) != want {
			t.Errorf("the response to %q is %q (%v), want %q", said, got, err, want)
		}
	}
}
