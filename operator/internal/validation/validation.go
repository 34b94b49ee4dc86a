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

// Result is what is wrong with a Function.
type Result struct {
	// Spec are the errors of the fields other than the source. With any of them nothing
	// of the spec is applied.
	Spec field.ErrorList

	// Excess are the fields that ask for more than the ceilings of the cluster allow.
	// They are applied as far as the ceilings allow.
	Excess field.ErrorList

	// Source is what is wrong with the source; nil when nothing is.
	Source *handler.Error
}

// Problem is something that is wrong with a Function, for a condition or an event.
type Problem struct {
	// Reason is that of the condition or of the event.
	Reason string

	// Message says what is wrong, and what to do where only the user can mend it.
	Message string
}

// InvalidSpec is the Problem that errors of a spec are; nil when there are none.
func InvalidSpec(errs field.ErrorList) *Problem {
	if len(errs) == 0 {
		return nil
	}
	return &Problem{Reason: v1beta1.ReasonInvalidSpec, Message: errs.ToAggregate().Error()}
}

// Function validates the spec and the source.
func Function(fn *v1beta1.Function, s settings.Settings) Result {
	v := Spec(fn, s)
	v.Source = Source(fn)
	return v
}

// Spec validates the spec without the source.
func Spec(fn *v1beta1.Function, s settings.Settings) Result {
	return Result{Spec: specErrors(fn), Excess: excessErrors(fn, s)}
}

// parsing bounds how many sources are parsed at the same time. Parsing a hostile source
// of the largest size takes 30 MiB of memory.
var parsing = make(chan struct{}, 2)

// Source parses the source and never compiles it: there are short sources that keep a
// type checker busy for ever. It returns nil when nothing is wrong.
func Source(fn *v1beta1.Function) *handler.Error {
	parsing <- struct{}{}
	defer func() { <-parsing }() // after a panic too
	_, err := handler.Parse(handler.Filename, []byte(fn.Spec.Function))
	refused, _ := errors.AsType[*handler.Error](err)
	return refused
}

// Diagnostics returns what is wrong with the source in the form that a status has.
// omitted counts those that were left out.
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
