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
	"goless.io/operator/internal/class"
	"goless.io/operator/internal/metrics"
	"goless.io/operator/internal/settings"
	"goless.io/operator/internal/validation"
)

// newRights is how long the webhook waits for rights that may have been given just now. It is well
// below the three seconds for which the API server waits for the webhook.
const newRights = time.Second

// validator decides whether a Function or a FunctionClass may be stored, and counts its answers.
type validator struct {
	metrics  *metrics.Metrics
	settings settings.Settings
	classes  *class.Classes
	accounts validation.ServiceAccounts
	decoder  admission.Decoder

	// client and namespace are the operator's own.
	client    client.Client
	namespace string
}

// Handle answers a request of the API server.
func (v *validator) Handle(ctx context.Context, request admission.Request) admission.Response {
	response, answer := v.judge(ctx, request)
	v.metrics.Judged(answer)
	return response
}

// judge refuses an object that has mistakes. If it cannot be validated, because of a defect of the
// operator, the object is allowed with a warning: nobody may be kept from applying a Function. The
// second result is what is counted.
func (v *validator) judge(ctx context.Context, request admission.Request) (response admission.Response, answer string) {
	defer func() {
		if p := recover(); p != nil {
			log.FromContext(ctx).Error(fmt.Errorf("panic: %v", p), "a "+request.Kind.Kind+" could not be validated", "stack", string(debug.Stack()))
			response, answer = unjudged(request), metrics.Unjudged
		}
	}()
	if len(v.settings.Namespaces) > 0 && !slices.Contains(v.settings.Namespaces, request.Namespace) {
		return admission.Allowed(""), metrics.Allowed
	}
	validate := v.validateFunction
	if request.Kind.Kind == "FunctionClass" {
		validate = v.validateClass
	}
	found, err := validate(ctx, request)
	switch {
	case err != nil:
		log.FromContext(ctx).Error(err, "a "+request.Kind.Kind+" could not be validated")
		return unjudged(request), metrics.Unjudged
	case len(found.mistakes) > 0:
		return refusal(found.mistakes), metrics.Refused
	}
	return admission.Allowed("").WithWarnings(found.warnings...), metrics.Allowed
}

// findings are what is wrong with an object. With mistakes it is refused.
type findings struct{ mistakes, warnings []string }

// validateFunction returns what is wrong with the Function of a request, unless it was in the
// Function before: people must be able to change the labels of such a Function, or to correct it
// step by step, and the garbage collector to delete it.
func (v *validator) validateFunction(ctx context.Context, request admission.Request) (found findings, err error) {
	fn, old, err := v.decode(request)
	if err != nil || !fn.DeletionTimestamp.IsZero() {
		return findings{}, err
	}
	wrong, err := v.checkSpec(ctx, fn)
	if err != nil {
		return findings{}, err
	}
	if old != nil {
		before, err := v.checkSpec(ctx, old)
		if err != nil {
			return findings{}, err
		}
		wrong = added(wrong, before)
	}
	if old == nil || fn.Spec.ServiceAccountName != old.Spec.ServiceAccountName {
		errs, err := v.checkAccount(ctx, fn)
		if err != nil {
			return findings{}, err
		}
		wrong = append(wrong, errs...)
	}
	for _, mistake := range wrong {
		found.mistakes = append(found.mistakes, mistake.Error())
	}
	if old == nil || fn.Spec.Function != old.Spec.Function {
		if err := validation.Source(fn); err != nil {
			found.mistakes = append(found.mistakes, strings.Split(err.Error(), "\n")...)
		}
	}
	return found, nil
}

// decode returns the Function of a request, and the one that it is to replace; nil if it is new.
func (v *validator) decode(request admission.Request) (fn, old *v1beta1.Function, err error) {
	fn = &v1beta1.Function{}
	if err := v.decoder.DecodeRaw(request.Object, fn); err != nil {
		return nil, nil, err
	}
	if fn.Spec.Unreadable != "" { // by a version of the API that is newer than the operator
		return nil, nil, errors.New(fn.Spec.Unreadable)
	}
	if request.Operation != admissionv1.Update {
		return fn, nil, nil
	}
	old = &v1beta1.Function{}
	return fn, old, v.decoder.DecodeRaw(request.OldObject, old)
}

// checkSpec returns what is wrong with the spec of a Function, with the ceilings of its class.
func (v *validator) checkSpec(ctx context.Context, fn *v1beta1.Function) (field.ErrorList, error) {
	class, wrongClass, err := v.classes.Of(ctx, fn)
	if err != nil {
		return nil, err
	}
	found := validation.Spec(fn, v.settings.Of(class))
	if wrongClass != nil {
		found.Spec = append(found.Spec, wrongClass)
	}
	return slices.Concat(found.Spec, found.Excess), nil
}

// added returns the mistakes that were not made before. A field that was wrong may be set to another
// value that is wrong in the same way, such as one that is nearer to a ceiling.
func added(mistakes, before field.ErrorList) field.ErrorList {
	return slices.DeleteFunc(slices.Clone(mistakes), func(mistake *field.Error) bool {
		return slices.ContainsFunc(before, func(other *field.Error) bool {
			return other.Field == mistake.Field && other.Type == mistake.Type && other.Detail == mistake.Detail
		})
	})
}

// checkAccount returns why a function may not run as its account. People apply the rights and the
// Function together, and the API server takes a moment to know new rights.
func (v *validator) checkAccount(ctx context.Context, fn *v1beta1.Function) (errs field.ErrorList, err error) {
	var wrong *field.Error
	_ = wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, newRights, true, func(context.Context) (bool, error) {
		wrong, err = v.accounts.Check(ctx, fn) // with the deadline of the whole request
		return wrong == nil, nil
	})
	if wrong != nil {
		errs = field.ErrorList{wrong}
	}
	return errs, err
}

// refusal refuses an object, with each mistake on a line of its own, as the builder prints them.
func refusal(mistakes []string) admission.Response {
	message := mistakes[0]
	if len(mistakes) > 1 {
		message = "\n" + strings.Join(mistakes, "\n")
	}
	return admission.Response{AdmissionResponse: admissionv1.AdmissionResponse{Result: &metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusUnprocessableEntity, Reason: metav1.StatusReasonInvalid, Message: message,
	}}}
}

// unjudged allows an object that could not be validated.
func unjudged(request admission.Request) admission.Response {
	return admission.Allowed("").WithWarnings("the " + request.Kind.Kind + " could not be checked before it was stored; its status will say what is wrong with it, if anything")
}
