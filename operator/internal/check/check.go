// Package check owns what is wrong with a Function by itself, whatever the cluster
// is like: in its source, in its spec, and of what it asks for beyond the ceilings
// of the cluster. It refuses to know who asks: the reconciler, which reports it, or
// admission, which does not let it in.
package check

import (
	"errors"

	"goless.io/builder/handler"
	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/settings"
)

// Verdict is what is wrong with a Function.
type Verdict struct {
	// Spec is wrong, though not the source in it: it cannot be applied.
	Spec Findings

	// Excess is what the spec asks for beyond the ceilings of the cluster. It is
	// applied as far as they allow.
	Excess Findings

	// Source is what is wrong with the source; nil when nothing is.
	Source *handler.Error
}

// Function looks at the spec and at the source.
func Function(fn *v1beta1.Function, s settings.Settings) Verdict {
	v := Spec(fn, s)
	v.Source = Source(fn)
	return v
}

// Spec is Function without the look at the source.
func Spec(fn *v1beta1.Function, s settings.Settings) Verdict {
	return Verdict{Spec: spec(fn), Excess: ceilings(fn, s)}
}

// parsing holds what is looked at now. A hostile source of the largest size takes 30
// MiB for as long as that takes, and more of them at the same time than there are
// processors would be ready no sooner.
var parsing = make(chan struct{}, 2)

// Source parses and never compiles: there are short sources that keep a type
// checker busy for ever.
func Source(fn *v1beta1.Function) *handler.Error {
	parsing <- struct{}{}
	defer func() { <-parsing }() // after a panic too
	_, err := handler.Parse(handler.Filename, []byte(fn.Spec.Function))
	refused, _ := errors.AsType[*handler.Error](err)
	return refused
}

// Diagnostics are what is wrong with the source, as a status has them. omitted
// counts those that were left out.
func (v Verdict) Diagnostics() (diagnostics []v1beta1.Diagnostic, omitted int32) {
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
