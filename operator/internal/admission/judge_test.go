package admission

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"goless.io/operator/api/v1beta1"
)

// panicking is a decoder with a defect, in the place of any.
type panicking struct{ admission.Decoder }

func (panicking) DecodeRaw(runtime.RawExtension, runtime.Object) error { panic("a defect") }

// A defect of ours, or an API that is newer than we are, keeps nobody from applying
// a Function.
func TestDefectsLetPass(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1beta1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	raw := runtime.RawExtension{Raw: []byte(`{"apiVersion":"goless.io/v1beta1","kind":"Function","spec":{"replicas":"many"}}`)}
	request := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{Operation: admissionv1.Create, Object: raw}}
	for name, decoder := range map[string]admission.Decoder{"panic": panicking{}, "unknown": admission.NewDecoder(scheme)} {
		got := (&judge{decoder: decoder}).Handle(t.Context(), request)
		if !got.Allowed || len(got.Warnings) != 1 {
			t.Errorf("%s: %+v, want leave with a warning", name, got)
		}
	}
}

// More Functions than there is memory for are not judged rather than kept waiting.
func TestCrowd(t *testing.T) {
	var arrived sync.WaitGroup
	arrived.Add(most)
	leave := make(chan struct{})
	var turned atomic.Int32
	server := httptest.NewServer(bounded(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		arrived.Done()
		<-leave
	}), func() { turned.Add(1) }))
	defer server.Close()
	var crowd sync.WaitGroup
	ask := func(want int) {
		answer, err := http.Post(server.URL, "application/json", http.NoBody)
		if err != nil {
			t.Error(err)
			return
		}
		if err := answer.Body.Close(); err != nil || answer.StatusCode != want {
			t.Errorf("got %s, %v, want %d", answer.Status, err, want)
		}
	}
	for range most {
		crowd.Go(func() { ask(http.StatusOK) })
	}
	arrived.Wait()
	ask(http.StatusServiceUnavailable)
	if turned.Load() != 1 {
		t.Errorf("%d were turned away, want 1", turned.Load())
	}
	close(leave)
	crowd.Wait()
}
