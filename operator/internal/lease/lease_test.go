package lease

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// A leader writes for ten seconds after it has asked for its lease, and a
// candidate does not write at all.
func TestGuard(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	var clock time.Time
	guard := NewGuard("operator", 10*time.Second)
	guard.now = func() time.Time { return clock }
	client := &http.Client{Transport: guard.Wrap(http.DefaultTransport)}

	const leases = "/apis/coordination.k8s.io/v1/namespaces/system/leases"
	clock = time.Now()
	for _, step := range []struct {
		after   time.Duration
		method  string
		path    string
		expired bool
	}{
		{0, "GET", "/api/v1/pods", false},
		{0, "PATCH", "/apis/apps/v1/namespaces/a/deployments/b", true},
		{0, "POST", "/apis/authentication.k8s.io/v1/tokenreviews", false},
		{0, "PUT", leases + "/another", false},
		{0, "DELETE", "/api/v1/namespaces/a/services/b", true},
		{0, "POST", leases, false},
		{9 * time.Second, "PATCH", "/apis/apps/v1/namespaces/a/deployments/b", false},
		{0, "PUT", leases + "/operator", false},
		{9 * time.Second, "POST", "/api/v1/namespaces/a/configmaps", false},
		{time.Second, "POST", "/api/v1/namespaces/a/configmaps", true}, // it was stopped
		{0, "GET", "/api/v1/pods", false},
		{0, "PUT", leases + "/operator", false},
		{0, "POST", "/api/v1/namespaces/a/configmaps", false},
	} {
		clock = clock.Add(step.after)
		request, err := http.NewRequestWithContext(t.Context(), step.method, server.URL+step.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := client.Do(request)
		if err == nil {
			response.Body.Close() //nolint:errcheck // it was read by nobody
		}
		if errors.Is(err, ErrExpired) != step.expired || err != nil && !step.expired {
			t.Errorf("%s %s: %v, want expired %t", step.method, step.path, err, step.expired)
		}
	}
}

// A lease that could not be had is none.
func TestGuardOfLostLease(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusConflict) }))
	defer server.Close()
	client := &http.Client{Transport: NewGuard("operator", time.Minute).Wrap(http.DefaultTransport)}
	for _, step := range []struct{ method, path string }{{"PUT", "/apis/coordination.k8s.io/v1/namespaces/system/leases/operator"}, {"PATCH", "/api/v1/x"}} {
		request, err := http.NewRequestWithContext(t.Context(), step.method, server.URL+step.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := client.Do(request)
		if err == nil {
			response.Body.Close() //nolint:errcheck // it was read by nobody
		}
		if expired := errors.Is(err, ErrExpired); expired != (step.method == "PATCH") {
			t.Errorf("%s: %v", step.method, err)
		}
	}
}
