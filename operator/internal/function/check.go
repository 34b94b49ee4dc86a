package function

import (
	"errors"

	"goless.io/builder/handler"
	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/settings"
	"goless.io/operator/internal/status"
)

// verdict is what is wrong with a Function by itself, whatever the cluster is
// like.
type verdict struct {
	// problem is in the spec, but not in the source: it cannot be applied.
	problem *status.Problem

	// excess is what the spec asks for beyond the ceilings of the cluster. It is
	// applied as far as they allow.
	excess *status.Problem

	// diagnostics are in the source. omitted counts those that were left out.
	diagnostics []v1beta1.Diagnostic
	omitted     int32
}

// check looks at the spec and at the source.
func check(fn *v1beta1.Function, s settings.Settings) verdict {
	diagnostics, omitted := diagnose(fn.Spec.Function)
	return verdict{
		problem: checkSpec(fn).problem(), excess: checkCeilings(fn, s).problem(),
		diagnostics: diagnostics, omitted: omitted,
	}
}

// diagnose parses and never compiles: there are short sources that keep a type
// checker busy for ever.
func diagnose(source string) (diagnostics []v1beta1.Diagnostic, omitted int32) {
	_, err := handler.Parse(handler.Filename, []byte(source))
	refused, ok := errors.AsType[*handler.Error](err)
	if !ok {
		return nil, 0
	}
	for _, d := range refused.Diagnostics {
		diagnostics = append(diagnostics, v1beta1.Diagnostic{
			File: d.File, Line: int32(d.Line), Column: int32(d.Column), Message: d.Message,
		})
	}
	return diagnostics, int32(refused.Omitted)
}
