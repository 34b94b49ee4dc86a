// Package validation validates Functions beyond what the schema of the API can check: the source, the spec,
// the limits that an administrator has set, and the ServiceAccount. The reconciler reports the result in the
// status, and the admission webhook rejects an invalid Function.
package validation

import (
	"errors"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"goless.io/builder/handler"
	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/settings"
)

// Result contains the errors of a Function.
type Result struct {
	// Spec contains the errors of all fields except the source. If there are any, no change of the
	// spec is applied.
	Spec field.ErrorList

	// LimitErrors contains an error for each field that exceeds a limit of the cluster. The operator
	// uses the limit instead of the value.
	LimitErrors field.ErrorList

	// Source is the error of the source, or nil.
	Source *handler.Error
}

// Problem is an error of a Function, for a condition or an event.
type Problem struct {
	// Reason is the reason of the condition or event.
	Reason string

	// Message describes the error, and what to do if only the user can fix it.
	Message string
}

// InvalidSpec returns a Problem with all errors of a spec, or nil if there are none.
func InvalidSpec(errs field.ErrorList) *Problem {
	if len(errs) == 0 {
		return nil
	}
	return &Problem{Reason: v1beta1.ReasonInvalidSpec, Message: errs.ToAggregate().Error()}
}

// Function validates the spec and the source of a Function.
func Function(fn *v1beta1.Function, s settings.Settings) Result {
	v := Spec(fn, s)
	v.Source = Source(fn)
	return v
}

// Spec validates the spec of a Function without the source.
func Spec(fn *v1beta1.Function, s settings.Settings) Result {
	return Result{Spec: specErrors(fn), LimitErrors: limitErrors(fn, s)}
}

// parsing limits the number of sources that are parsed at the same time. A hostile source of the
// largest size takes 30 MiB of memory to parse.
var parsing = make(chan struct{}, 2)

// Source validates the source of a Function and returns nil if it is valid. It parses the source
// but does not type check it: short sources exist that keep a type checker busy indefinitely.
func Source(fn *v1beta1.Function) *handler.Error {
	parsing <- struct{}{}
	defer func() { <-parsing }() // even after a panic
	_, err := handler.Parse(handler.Filename, []byte(fn.Spec.Function))
	refused, _ := errors.AsType[*handler.Error](err)
	return refused
}

// Diagnostics returns the errors of the source in the format of the status. omitted is the number
// of errors that were left out.
func (v Result) Diagnostics() (diagnostics []v1beta1.Diagnostic, omitted int32) {
	if v.Source == nil {
		return nil, 0
	}
	for _, d := range v.Source.Diagnostics {
		diagnostics = append(diagnostics, v1beta1.Diagnostic{
			File: d.File, Line: int32(d.Line), Column: int32(d.Column), Message: d.Message,
		})
	}
	return diagnostics, int32(v.Source.Omitted)
}
