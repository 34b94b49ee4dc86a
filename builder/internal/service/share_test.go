package service

import (
	"crypto/sha256"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"goless.io/builder/remote"
)

// TestShare has another replica answer when the one that has built is gone.
func TestShare(t *testing.T) {
	var n neighborhood
	a, b := n.newReplica(t), n.newReplica(t)
	o := remote.Order{Namespace: "team-a", Source: source(t, "")}
	key, _ := a.build(t, o)
	a.sharing.Wait()
	a.end()
	b.binary(t, key)
	b.build(t, o)
	if made := b.log.builds(t); len(made) > 0 {
		t.Errorf("builds: %q, want none", made)
	}
}

// TestGifts brings what nobody should take.
func TestGifts(t *testing.T) {
	r := newReplica(t, Config{})
	key := strings.Repeat("0", 64)
	good, err := record{Report: json.RawMessage("{}"), Signature: r.keys.Sign("other", sha256.Sum256([]byte("a program")))}.header()
	if err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct {
		key, token, record string
		want               int
	}{
		"Token":     {key, r.keys.Capability(key), good, http.StatusUnauthorized},
		"Key":       {"0", r.keys.Token(), good, http.StatusBadRequest},
		"Path":      {"..%2fkey", r.keys.Token(), good, http.StatusBadRequest},
		"Record":    {key, r.keys.Token(), "e30=", http.StatusBadRequest},
		"Signature": {key, r.keys.Token(), good, http.StatusBadRequest},
	}
	transport := &http.Transport{TLSClientConfig: r.keys.ClientTLS()}
	defer transport.CloseIdleConnections()
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodPut, r.url+remote.BinariesPath+c.key, strings.NewReader("a program"))
			if err != nil {
				t.Fatal(err)
			}
			request.Header.Set("Authorization", "Bearer "+c.token)
			request.Header.Set(recordHeader, c.record)
			response, err := transport.RoundTrip(request)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close() //nolint:errcheck // only the status matters
			if response.StatusCode != c.want {
				t.Errorf("%s, want %d", response.Status, c.want)
			}
		})
	}
	r.missing(t, key, "not known")
}
