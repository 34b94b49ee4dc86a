package buildservice

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"goless.io/builder/buildapi"
)

// A deadlineRecorder records a response and its write deadlines.
type deadlineRecorder struct {
	*httptest.ResponseRecorder
	deadlines []time.Time
}

func (d *deadlineRecorder) SetReadDeadline(time.Time) error { return nil }

func (d *deadlineRecorder) SetWriteDeadline(at time.Time) error {
	d.deadlines = append(d.deadlines, at)
	return nil
}

// download requests a binary from a client address.
func (r *replica) download(t *testing.T, key, address string) *deadlineRecorder {
	t.Helper()
	request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, buildapi.BinariesPath+key, nil)
	request.SetPathValue("key", key)
	request.Header.Set("Authorization", "Bearer "+r.keys.Capability(key))
	request.RemoteAddr = address
	recorder := &deadlineRecorder{ResponseRecorder: httptest.NewRecorder()}
	r.serveBinary(recorder, request)
	return recorder
}

// TestDownloadDeadline checks that the download of a large binary has a single write deadline that
// depends on its size.
func TestDownloadDeadline(t *testing.T) {
	r := newReplica(t, Config{})
	key, _ := r.build(t, buildapi.Order{Namespace: "team-a", Source: source(t, "")})
	begun := time.Now()
	got := r.download(t, key, "192.0.2.1:1")
	ended := time.Now()
	size := got.Body.Len()
	if got.Code != http.StatusOK || size < 1<<20 {
		t.Fatalf("the answer is %d with %d bytes", got.Code, size)
	}
	most := 30*time.Second + time.Duration(size)*time.Second/(1<<20)
	if len(got.deadlines) != 1 || got.deadlines[0].Before(begun.Add(most)) || got.deadlines[0].After(ended.Add(most)) {
		t.Errorf("the deadlines are %d, the last one %s after the request, want one after %s", len(got.deadlines), got.deadlines[len(got.deadlines)-1].Sub(begun), most)
	}
}

// TestDownloadsPerClient checks that a client can download again when one of the maximum number of
// downloads of a namespace has ended. Other clients, replicas, and pods of other namespaces with
// the same address are not affected.
func TestDownloadsPerClient(t *testing.T) {
	r := newReplica(t, Config{})
	key, _ := r.build(t, buildapi.Order{Namespace: "team-a", Source: source(t, "")})
	var ends []func()
	for range maxDownloads {
		end, ok := r.downloads.begin("192.0.2.1:1", "team-a")
		if !ok {
			t.Fatal("the client may not download")
		}
		ends = append(ends, end)
	}
	if got := r.download(t, key, "192.0.2.1:2"); got.Code != http.StatusTooManyRequests || got.Header().Get("Retry-After") == "" {
		t.Errorf("one more: %d, %s, want 429 and when to come back", got.Code, got.Body)
	}
	if got := r.download(t, key, "192.0.2.2:1"); got.Code != http.StatusOK {
		t.Errorf("another client: %d, %s", got.Code, got.Body)
	}
	other, _ := r.build(t, buildapi.Order{Namespace: "team-b", Source: source(t, "")})
	if got := r.download(t, other, "192.0.2.1:2"); got.Code != http.StatusOK {
		t.Errorf("another namespace: %d, %s", got.Code, got.Body)
	}
	ends[0]()
	for range 2 { // each download ends
		if got := r.download(t, key, "192.0.2.1:2"); got.Code != http.StatusOK {
			t.Errorf("after one has ended: %d, %s", got.Code, got.Body)
		}
	}
	for _, end := range ends[1:] {
		end()
	}
	if len(r.downloads.counts) != 0 {
		t.Errorf("downloads that go on: %v", r.downloads.counts)
	}
}
