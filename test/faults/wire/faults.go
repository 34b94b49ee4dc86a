package wire

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Before calls do instead of forwarding the request, and closes the connection.
func Before(do func()) Fault {
	return func(http.ResponseWriter, *http.Request, http.Handler) {
		do()
		panic(http.ErrAbortHandler)
	}
}

// After calls do when the request has been carried out, and drops the response.
func After(do func()) Fault {
	return func(_ http.ResponseWriter, r *http.Request, forward http.Handler) {
		forward.ServeHTTP(httptest.NewRecorder(), r)
		do()
		panic(http.ErrAbortHandler)
	}
}

// Answer responds with an error of the API server, without forwarding the request.
func Answer(code int, retryAfter int) Fault {
	return func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		refuse(w, code, retryAfter)
	}
}

// AnswerAfter forwards the request, and then responds with an error.
func AnswerAfter(code int) Fault {
	return func(w http.ResponseWriter, r *http.Request, forward http.Handler) {
		forward.ServeHTTP(httptest.NewRecorder(), r)
		refuse(w, code, 0)
	}
}

// Hang does not respond until the operator disconnects.
func Hang() Fault {
	return func(_ http.ResponseWriter, r *http.Request, _ http.Handler) {
		<-gone(r).Done()
		panic(http.ErrAbortHandler)
	}
}

var reasons = map[int]metav1.StatusReason{
	http.StatusForbidden:           metav1.StatusReasonForbidden,
	http.StatusConflict:            metav1.StatusReasonConflict,
	http.StatusTooManyRequests:     metav1.StatusReasonTooManyRequests,
	http.StatusInternalServerError: metav1.StatusReasonInternalError,
	http.StatusServiceUnavailable:  metav1.StatusReasonServiceUnavailable,
	http.StatusGatewayTimeout:      metav1.StatusReasonTimeout,
}

func refuse(w http.ResponseWriter, code, retryAfter int) {
	status := metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusFailure, Code: int32(code), Reason: reasons[code], Message: "injected",
	}
	w.Header().Set("Content-Type", "application/json")
	if retryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(retryAfter))
	}
	w.WriteHeader(code)
	json.NewEncoder(w).Encode(status) //nolint:errcheck // the operator may have exited
}

// Held calls come when the request has arrived, and forwards it when goOn is closed.
func Held(come func(), goOn <-chan struct{}) Fault {
	return func(w http.ResponseWriter, r *http.Request, forward http.Handler) {
		come()
		<-goOn
		forward.ServeHTTP(w, r)
	}
}

// Garbled forwards the request, and responds with other data, as a proxy or a closed connection
// may.
func Garbled(body string) Fault {
	return func(w http.ResponseWriter, r *http.Request, forward http.Handler) {
		forward.ServeHTTP(httptest.NewRecorder(), r)
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, body) //nolint:errcheck // the operator may have exited
	}
}
