package buildapi

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
)

// silentServer sends the beginning of a response and then nothing. Without a status, it does not
// respond at all.
type silentServer struct{ status int }

// RoundTrip returns a response whose body ends only with the request.
func (s silentServer) RoundTrip(request *http.Request) (*http.Response, error) {
	if s.status == 0 {
		<-request.Context().Done()
		return nil, context.Cause(request.Context()) // as http.Transport does
	}
	body, rest := io.Pipe()
	ctx := request.Context()
	go func() {
		_, _ = io.WriteString(rest, "\n")
		<-ctx.Done()
		_ = rest.CloseWithError(ctx.Err())
	}()
	return &http.Response{StatusCode: s.status, Body: body}, nil
}

// TestClientDoesNotWaitForEver checks that the client gives up when the service does not respond or
// stops sending, also in the response of an error.
func TestClientDoesNotWaitForEver(t *testing.T) {
	const silent = "no data received for 20s"
	for status, want := range map[int]string{0: silent, http.StatusOK: silent, http.StatusTooManyRequests: "the build service answers 429"} {
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

// retryingTransport begins to read the body of a request, and gets it again, like net/http if an idle
// connection turns out to be closed. It keeps the request.
type retryingTransport struct {
	request *http.Request
	body    []byte
}

// RoundTrip responds with an event that contains a report.
func (r *retryingTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	r.request = request
	if _, err := io.CopyN(io.Discard, request.Body, 1); err != nil {
		return nil, err
	}
	if err := request.Body.Close(); err != nil {
		return nil, err
	}
	body, err := request.GetBody()
	if err != nil {
		return nil, err
	}
	if r.body, err = io.ReadAll(body); err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(`{"report":"e30="}`))}, nil
}

// An order can be sent again until the service responds. Then the request does not contain it.
func TestOrderInRequest(t *testing.T) {
	keys, err := NewKeys(make([]byte, SeedSize))
	if err != nil {
		t.Fatal(err)
	}
	client, transport := NewClient("https://build.example", keys), &retryingTransport{}
	client.http = &http.Client{Transport: transport}
	if _, err := client.Build(t.Context(), Order{Source: "package p"}, nil); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(transport.body), "package p") {
		t.Errorf("the body is %q", transport.body)
	}
	if rest, _ := io.ReadAll(transport.request.Body); len(rest) > 0 {
		t.Errorf("the request contains %q", rest)
	}
	if _, err := transport.request.GetBody(); err == nil {
		t.Error("GetBody returns the order after the response")
	}
}
