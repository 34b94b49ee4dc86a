package leaderguard

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// A leader can write for ten seconds after each request to renew its lease, and other replicas
// cannot write.
func TestGuard(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	var clock time.Time
	guard := NewGuard("operator", 10*time.Second)
	guard.now = func() time.Time { return clock }
	client := &http.Client{Transport: guard.Wrap(http.DefaultTransport)}

	const leases = "/apis/coordination.k8s.io/v1/namespaces/system/leases"
	const configMaps = "/api/v1/namespaces/a/configmaps"
	held, another, released := body("operator", "one"), body("another", "one"), body("operator", "")
	clock = time.Now()
	for _, step := range []struct {
		after   time.Duration
		method  string
		path    string
		body    string
		expired bool
	}{
		{0, "GET", "/api/v1/pods", "", false},
		{0, "PATCH", "/apis/apps/v1/namespaces/a/deployments/b", "{}", true},
		{0, "POST", "/apis/authentication.k8s.io/v1/tokenreviews", "{}", false},
		{0, "PUT", leases + "/another", another, false},
		{0, "POST", leases, another, false},
		{0, "DELETE", "/api/v1/namespaces/a/services/b", "", true},
		{0, "POST", leases, held, false},
		{9 * time.Second, "PATCH", "/apis/apps/v1/namespaces/a/deployments/b", "{}", false},
		{0, "PUT", leases + "/operator", held, false},
		{9 * time.Second, "POST", configMaps, "{}", false},
		{time.Second, "POST", configMaps, "{}", true}, // the renewal was ten seconds ago
		{0, "GET", "/api/v1/pods", "", false},
		{0, "PUT", leases + "/operator", held, false},
		{0, "POST", configMaps, "{}", false},
		{0, "PUT", leases + "/operator", released, false},
		{0, "POST", configMaps, "{}", true},
		{0, "PUT", leases + "/operator", held, false},
		{0, "POST", configMaps, "{}", false},
	} {
		clock = clock.Add(step.after)
		request, err := http.NewRequestWithContext(t.Context(), step.method, server.URL+step.path, strings.NewReader(step.body))
		if err != nil {
			t.Fatal(err)
		}
		response, err := client.Do(request)
		if err == nil {
			response.Body.Close() //nolint:errcheck // not read
		}
		if errors.Is(err, ErrExpired) != step.expired || err != nil && !step.expired {
			t.Errorf("%s %s: %v, want expired %t", step.method, step.path, err, step.expired)
		}
	}
}

// body returns a Lease as JSON.
func body(name, holder string) string {
	return fmt.Sprintf(`{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":%q},"spec":{"holderIdentity":%q}}`, name, holder)
}

// A rejected renewal does not count.
func TestFailedRenewal(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusConflict) }))
	defer server.Close()
	client := &http.Client{Transport: NewGuard("operator", time.Minute).Wrap(http.DefaultTransport)}
	for _, step := range []struct{ method, path string }{{"PUT", "/apis/coordination.k8s.io/v1/namespaces/system/leases/operator"}, {"PATCH", "/api/v1/x"}} {
		request, err := http.NewRequestWithContext(t.Context(), step.method, server.URL+step.path, strings.NewReader(body("operator", "one")))
		if err != nil {
			t.Fatal(err)
		}
		response, err := client.Do(request)
		if err == nil {
			response.Body.Close() //nolint:errcheck // not read
		}
		if expired := errors.Is(err, ErrExpired); expired != (step.method == "PATCH") {
			t.Errorf("%s: %v", step.method, err)
		}
	}
}
