package e2e

import (
	"errors"
	"io"
	"net/http"
	"path/filepath"
	"testing"
)

// A gRPC function is called with HTTP/2 without TLS, and returns the status in a trailer.
func TestGRPC(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	file := filepath.Join("..", "..", "examples", "grpc.yaml")
	ns.kubectl("apply", "-f", file)
	fn := readFunction(t, file)
	fn = ns.ready(get(ns, fn.Name, fn))
	ns.reach(fn)
	checkHealth(t, withoutTLS(t), "http://"+forward(t, ns.name, "service/"+fn.ServiceName(), "8080"))
}

// withoutTLS returns a client that uses HTTP/2 without TLS.
func withoutTLS(t *testing.T) *http.Client {
	t.Helper()
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// checkHealth calls the function of examples/grpc.yaml at a URL.
func checkHealth(t *testing.T, client *http.Client, url string) {
	t.Helper()
	for path, want := range map[string]string{"/grpc.health.v1.Health/Check": "0", "/grpc.health.v1.Health/Watch": "12"} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Content-Type", "application/grpc")
		request.Header.Set("Te", "trailers")
		response, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_, err = io.Copy(io.Discard, response.Body)
		err = errors.Join(err, response.Body.Close())
		got := response.Trailer.Get("Grpc-Status") + response.Header.Get("Grpc-Status") // the latter without a message
		if err != nil || response.ProtoMajor != 2 || got != want {
			t.Errorf("%s: %s, status %q, %v; want %q over HTTP/2", path, response.Proto, got, err, want)
		}
	}
}
