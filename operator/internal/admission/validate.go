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

// accessReviewTimeout is the time for which the webhook waits for permissions that may have been
// granted just before. It is well below the webhook timeout of three seconds.
const accessReviewTimeout = time.Second

// A validator is the admission handler for Functions and FunctionClasses.
type validator struct {
	metrics  *metrics.Metrics
	settings settings.Settings
	classes  *class.Classes
	accounts validation.ServiceAccounts
	decoder  admission.Decoder

	// client and namespace belong to the operator.
	client    client.Client
	namespace string
}

// Handle implements [admission.Handler].
func (v *validator) Handle(ctx context.Context, request admission.Request) admission.Response {
	response, answer := v.validate(ctx, request)
	v.metrics.RecordAdmission(answer)
	return response
}

// validate denies an object with errors. If it cannot be validated, for example because a read
// fails, the object is allowed with a warning. The second result is the answer that the metric
// counts.
func (v *validator) validate(ctx context.Context, request admission.Request) (response admission.Response, answer string) {
	defer func() {
		if p := recover(); p != nil {
			log.FromContext(ctx).Error(fmt.Errorf("panic: %v", p), "a "+request.Kind.Kind+" could not be validated", "stack", string(debug.Stack()))
			response, answer = allowUnvalidated(request), metrics.NotValidated
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
		return allowUnvalidated(request), metrics.NotValidated
	case len(found.errs) > 0:
		return deny(found.errs), metrics.Denied
	}
	return admission.Allowed("").WithWarnings(found.warnings...), metrics.Allowed
}

// result contains the errors and warnings of an object. Any error denies it.
type result struct{ errs, warnings []string }

// validateFunction validates the Function of a request. On an update it ignores errors of the
// previous version: users must be able to change the labels of such a Function or to fix it step by
// step, and the garbage collector to delete it.
func (v *validator) validateFunction(ctx context.Context, request admission.Request) (found result, err error) {
	fn, old, err := v.decode(request)
	if err != nil || !fn.DeletionTimestamp.IsZero() {
		return result{}, err
	}
	wrong, err := v.checkSpec(ctx, fn)
	if err != nil {
		return result{}, err
	}
	if old != nil {
		before, err := v.checkSpec(ctx, old)
		if err != nil {
			return result{}, err
		}
		wrong = added(wrong, before)
	}
	if old == nil || fn.Spec.ServiceAccountName != old.Spec.ServiceAccountName {
		errs, err := v.checkAccount(ctx, fn)
		if err != nil {
			return result{}, err
		}
		wrong = append(wrong, errs...)
	}
	found = report(wrong, request.DryRun != nil && *request.DryRun)
	if old == nil || fn.Spec.Function != old.Spec.Function {
		if err := validation.Source(fn); err != nil {
			found.errs = append(found.errs, strings.Split(err.Error(), "\n")...)
		}
	}
	return found, nil
}

// report returns the errors in a Function. In a dry run, an error that an object applied with the
// Function may fix is a warning, because that object does not exist yet: Flux and Argo CD apply
// nothing until the dry run of all objects succeeds.
func report(mistakes field.ErrorList, dryRun bool) (found result) {
	for _, mistake := range mistakes {
		if dryRun && (mistake.Field == "spec.className" || mistake.Field == "spec.serviceAccountName") {
			found.warnings = append(found.warnings, mistake.Error())
			continue
		}
		found.errs = append(found.errs, mistake.Error())
	}
	return found
}

// decode returns the Function of a request and the previous version, which is nil for a new
// Function.
func (v *validator) decode(request admission.Request) (fn, old *v1beta1.Function, err error) {
	fn = &v1beta1.Function{}
	if err := v.decoder.DecodeRaw(request.Object, fn); err != nil {
		return nil, nil, err
	}
	if fn.Spec.Unreadable != "" { // the API version is newer than the operator
		return nil, nil, errors.New(fn.Spec.Unreadable)
	}
	if request.Operation != admissionv1.Update {
		return fn, nil, nil
	}
	old = &v1beta1.Function{}
	return fn, old, v.decoder.DecodeRaw(request.OldObject, old)
}

// checkSpec validates the spec of a Function, with the limits of its class.
func (v *validator) checkSpec(ctx context.Context, fn *v1beta1.Function) (field.ErrorList, error) {
	class, wrongClass, err := v.classes.Of(ctx, fn)
	if err != nil {
		return nil, err
	}
	settings := v.settings.Of(class)
	found := validation.Spec(fn, settings)
	if wrongClass != nil {
		found.Spec = append(found.Spec, wrongClass)
	}
	return slices.Concat(found.Spec, validation.Tests(fn, settings), found.LimitErrors), nil
}

// added returns the errors that are not in before. The value of a field with an error may change,
// such as to one nearer to the limit.
func added(mistakes, before field.ErrorList) field.ErrorList {
	return slices.DeleteFunc(slices.Clone(mistakes), func(mistake *field.Error) bool {
		return slices.ContainsFunc(before, func(other *field.Error) bool {
			return other.Field == mistake.Field && other.Type == mistake.Type && other.Detail == mistake.Detail
		})
	})
}

// checkAccount validates spec.serviceAccountName. It retries for accessReviewTimeout, because users
// apply the RBAC objects together with the Function, and the API server needs a moment to apply
// them.
func (v *validator) checkAccount(ctx context.Context, fn *v1beta1.Function) (errs field.ErrorList, err error) {
	var wrong *field.Error
	_ = wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, accessReviewTimeout, true, func(context.Context) (bool, error) {
		wrong, err = v.accounts.Check(ctx, fn) // with the context of the request, not of the poll
		return wrong == nil, nil
	})
	if wrong != nil {
		errs = field.ErrorList{wrong}
	}
	return errs, err
}

// deny denies an object and prints each error on its own line, like the builder. The reason is
// Forbidden, not Invalid: if an update is Invalid, "kubectl apply --force", and Flux with spec.force,
// delete the object and create it again, which stops a function that serves.
func deny(mistakes []string) admission.Response {
	message := mistakes[0]
	if len(mistakes) > 1 {
		message = "\n" + strings.Join(mistakes, "\n")
	}
	return admission.Response{AdmissionResponse: admissionv1.AdmissionResponse{Result: &metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden, Message: message,
	}}}
}

// allowUnvalidated allows an object that could not be validated, with a warning.
func allowUnvalidated(request admission.Request) admission.Response {
	return admission.Allowed("").WithWarnings("the " + request.Kind.Kind + " could not be validated at admission; its status will report problems")
}
