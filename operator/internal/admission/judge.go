package admission

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/check"
	"goless.io/operator/internal/metrics"
	"goless.io/operator/internal/settings"
)

const (
	// most is how many requests are read at the same time. Each has up to 7 MiB, the
	// Function as it was and as it shall be.
	most = 2

	// patience is how long a Function waits for its turn. The API server takes no
	// answer for leave to go on.
	patience = 2 * time.Second
)

// judge answers whether a Function may be stored.
type judge struct {
	settings settings.Settings
	decoder  admission.Decoder
}

// Handle refuses what the operator would refuse, unless it was there before: an
// old Function must stay open to a change of its labels, to the garbage collector,
// and to being mended step by step.
func (j *judge) Handle(ctx context.Context, request admission.Request) (response admission.Response) {
	defer func() {
		if p := recover(); p != nil {
			log.FromContext(ctx).Error(fmt.Errorf("panic: %v", p), "a Function could not be judged", "stack", string(debug.Stack()))
			response = unjudged()
		}
	}()
	if len(j.settings.Namespaces) > 0 && !slices.Contains(j.settings.Namespaces, request.Namespace) {
		return admission.Allowed("")
	}
	fn, old := &v1beta1.Function{}, (*v1beta1.Function)(nil)
	err := j.decoder.DecodeRaw(request.Object, fn)
	if err == nil && request.Operation == admissionv1.Update {
		old = &v1beta1.Function{}
		err = j.decoder.DecodeRaw(request.OldObject, old)
	}
	if err == nil && fn.Spec.Unreadable != "" { // of a version of the API that is newer than we are
		err = errors.New(fn.Spec.Unreadable)
	}
	switch {
	case err != nil:
		log.FromContext(ctx).Error(err, "a Function could not be judged")
		return unjudged()
	case !fn.DeletionTimestamp.IsZero():
		return admission.Allowed("")
	}
	if found := mistakes(fn, old, j.settings); len(found) > 0 {
		return refusal(found)
	}
	return admission.Allowed("")
}

// mistakes are what is wrong with a Function and was not wrong with the old one,
// which is nil when the Function is new.
func mistakes(fn, old *v1beta1.Function, s settings.Settings) []string {
	is, was := check.Spec(fn, s), check.Verdict{}
	if old != nil {
		was = check.Spec(old, s)
	}
	found := slices.DeleteFunc(slices.Concat(is.Spec, is.Excess), func(mistake string) bool {
		return slices.Contains(was.Spec, mistake) || slices.Contains(was.Excess, mistake)
	})
	if old != nil && fn.Spec.Function == old.Spec.Function {
		return found
	}
	if err := check.Source(fn); err != nil {
		found = append(found, strings.Split(err.Error(), "\n")...)
	}
	return found
}

// refusal has each mistake in a line of its own, as the builder prints them.
func refusal(mistakes []string) admission.Response {
	message := mistakes[0]
	if len(mistakes) > 1 {
		message = "\n" + strings.Join(mistakes, "\n")
	}
	return admission.Response{AdmissionResponse: admissionv1.AdmissionResponse{Result: &metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusUnprocessableEntity, Reason: metav1.StatusReasonInvalid, Message: message,
	}}}
}

// unjudged lets a Function pass that cannot be judged, which is our fault.
func unjudged() admission.Response {
	return admission.Allowed("").WithWarnings("the Function could not be checked before it was stored; its status will say what is wrong with it, if anything")
}

// counted counts the answers of a handler.
func counted(m *metrics.Metrics, next admission.Handler) admission.HandlerFunc {
	return func(ctx context.Context, request admission.Request) admission.Response {
		response := next.Handle(ctx, request)
		switch {
		case !response.Allowed:
			m.Judged(metrics.Refused)
		case len(response.Warnings) > 0:
			m.Judged(metrics.Unjudged)
		default:
			m.Judged(metrics.Allowed)
		}
		return response
	}
}

// bounded keeps a crowd of Functions from taking the memory of the operator. Whom it
// turns away it tells busy.
func bounded(next http.Handler, busy func()) http.Handler {
	free := make(chan struct{}, most)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), patience)
		defer cancel()
		select {
		case free <- struct{}{}:
			defer func() { <-free }()
			next.ServeHTTP(w, r)
		case <-ctx.Done():
			busy()
			http.Error(w, "too many Functions are applied at the same time", http.StatusServiceUnavailable)
		}
	})
}
