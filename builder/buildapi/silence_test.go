package buildapi

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
)

// silentServer sends the beginning of a response and then nothing.
type silentServer struct{ status int }

// RoundTrip returns a response whose body ends only with the request.
func (s silentServer) RoundTrip(request *http.Request) (*http.Response, error) {
	body, rest := io.Pipe()
	ctx := request.Context()
	go func() {
		_, _ = io.WriteString(rest, "\n")
		<-ctx.Done()
		_ = rest.CloseWithError(ctx.Err())
	}()
	return &http.Response{StatusCode: s.status, Body: body}, nil
}

// TestClientDoesNotWaitForEver checks that the client gives up when the service stops sending, also
// in the response of an error.
func TestClientDoesNotWaitForEver(t *testing.T) {
	for status, want := range map[int]string{http.StatusOK: "no data received for 20s", http.StatusTooManyRequests: "the build service answers 429"} {
		synctest.Test(t, func(t *testing.T) {
			keys, err := NewKeys(make([]byte, SeedSize))
			if err != nil {
				t.Fatal(err)
			}
			client := NewClient("https://build.example", keys)
			client.http = &http.Client{Transport: silentServer{status}}
			if _, err := client.Build(t.Context(), Order{}, nil); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("Build: %v, want %s", err, want)
			}
		})
	}
}
