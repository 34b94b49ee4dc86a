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
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/account"
	"goless.io/operator/internal/check"
	"goless.io/operator/internal/class"
	"goless.io/operator/internal/metrics"
	"goless.io/operator/internal/settings"
)

// newRights is for how long the webhook waits for rights that may have been given just now. It
// is well below the time for which the API server waits for the webhook.
const newRights = time.Second

// validator decides whether a Function or a FunctionClass may be stored.
type validator struct {
	settings settings.Settings
	classes  *class.Classes
	accounts account.Accounts
	decoder  admission.Decoder

	// client and namespace are the operator's own.
	client    client.Client
	namespace string
}

// Handle refuses what the operator would refuse, unless it was in the Function before: people
// must be able to change the labels of such a Function, or to correct it step by step, and the
// garbage collector to delete it.
func (v *validator) Handle(ctx context.Context, request admission.Request) (response admission.Response) {
	defer func() {
		if p := recover(); p != nil {
			log.FromContext(ctx).Error(fmt.Errorf("panic: %v", p), "a "+request.Kind.Kind+" could not be validated", "stack", string(debug.Stack()))
			response = unjudged(request)
		}
	}()
	validate := v.validate
	if request.Kind.Kind == "FunctionClass" {
		validate = v.validateClass
	}
	if len(v.settings.Namespaces) > 0 && !slices.Contains(v.settings.Namespaces, request.Namespace) {
		return admission.Allowed("")
	}
	found, err := validate(ctx, request)
	switch {
	case err != nil:
		log.FromContext(ctx).Error(err, "a "+request.Kind.Kind+" could not be validated")
		return unjudged(request)
	case len(found) > 0:
		return refusal(found)
	}
	return admission.Allowed("")
}

// validate returns what is wrong with the Function of a request, and was not before.
func (v *validator) validate(ctx context.Context, request admission.Request) ([]string, error) {
	fn, old := &v1beta1.Function{}, (*v1beta1.Function)(nil)
	err := v.decoder.DecodeRaw(request.Object, fn)
	if err == nil && request.Operation == admissionv1.Update {
		old = &v1beta1.Function{}
		err = v.decoder.DecodeRaw(request.OldObject, old)
	}
	if err == nil && fn.Spec.Unreadable != "" { // of a version of the API that is newer than we are
		err = errors.New(fn.Spec.Unreadable)
	}
	if err != nil || !fn.DeletionTimestamp.IsZero() {
		return nil, err
	}
	is, was, err := v.compare(ctx, fn, old)
	if err != nil {
		return nil, err
	}
	return mistakes(fn, old, is, was), nil
}

// compare validates the spec of a Function, and of the old one, which is nil when the Function is
// new. An account that was there before is not asked for.
func (v *validator) compare(ctx context.Context, fn, old *v1beta1.Function) (is, was check.Result, err error) {
	is, err = v.judge(ctx, fn)
	if err == nil && old != nil {
		was, err = v.judge(ctx, old)
	}
	if err == nil && (old == nil || old.Spec.ServiceAccountName != fn.Spec.ServiceAccountName) {
		err = v.judgeAccount(ctx, fn, &is)
	}
	return is, was, err
}

// judge validates the spec of a Function, within the ceilings of its class.
func (v *validator) judge(ctx context.Context, fn *v1beta1.Function) (check.Result, error) {
	its, wrong, err := v.classes.Of(ctx, fn)
	found := check.Spec(fn, v.settings.Of(its))
	if wrong != nil {
		found.Spec = append(found.Spec, wrong)
	}
	return found, err
}

// judgeAccount adds to a result why the function may not run as its account. People apply the
// rights and the Function together, and the API server takes a moment to know new rights.
func (v *validator) judgeAccount(ctx context.Context, fn *v1beta1.Function, found *check.Result) error {
	var wrong *field.Error
	var err error
	_ = wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, newRights, true, func(context.Context) (bool, error) {
		wrong, err = v.accounts.Check(ctx, fn) // with the deadline of the whole request
		return wrong == nil, nil
	})
	if wrong != nil {
		found.Spec = append(found.Spec, wrong)
	}
	return err
}

// mistakes are what is wrong with a Function and was not wrong with the old one, which is nil when
// the Function is new. is and was are what is wrong with the spec of each. A field that was wrong
// before may be set to another wrong value.
func mistakes(fn, old *v1beta1.Function, is, was check.Result) (found []string) {
	before := slices.Concat(was.Spec, was.Excess)
	for _, mistake := range slices.Concat(is.Spec, is.Excess) {
		same := func(other *field.Error) bool {
			return other.Field == mistake.Field && other.Type == mistake.Type && other.Detail == mistake.Detail
		}
		if !slices.ContainsFunc(before, same) {
			found = append(found, mistake.Error())
		}
	}
	if old != nil && fn.Spec.Function == old.Spec.Function {
		return found
	}
	if err := check.Source(fn); err != nil {
		found = append(found, strings.Split(err.Error(), "\n")...)
	}
	return found
}

// refusal refuses an object, with each mistake in a line of its own, as the builder prints
// them.
func refusal(mistakes []string) admission.Response {
	message := mistakes[0]
	if len(mistakes) > 1 {
		message = "\n" + strings.Join(mistakes, "\n")
	}
	return admission.Response{AdmissionResponse: admissionv1.AdmissionResponse{Result: &metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusUnprocessableEntity, Reason: metav1.StatusReasonInvalid, Message: message,
	}}}
}

// unjudged allows what cannot be validated because of a defect of the operator.
func unjudged(request admission.Request) admission.Response {
	return admission.Allowed("").WithWarnings("the " + request.Kind.Kind + " could not be checked before it was stored; its status will say what is wrong with it, if anything")
}

// counted returns a handler that counts the answers of another one.
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
