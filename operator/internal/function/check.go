package function

import (
	"errors"
	"strings"

	"goless.io/builder/handler"
	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/settings"
	"goless.io/operator/internal/status"
)

// verdict is what is wrong with a Function by itself, whatever the cluster is
// like.
type verdict struct {
	// problem is in the spec, but not in the source.
	problem *status.Problem

	// diagnostics are in the source. omitted counts those that were left out.
	diagnostics []v1beta1.Diagnostic
	omitted     int32
}

// check looks at the spec, and at the source where the spec is in order.
func check(fn *v1beta1.Function, s settings.Settings) verdict {
	if wrong := checkSpec(fn, s); len(wrong) > 0 {
		return verdict{problem: &status.Problem{Reason: v1beta1.ReasonInvalidSpec, Message: strings.Join(wrong, "; ")}}
	}
	diagnostics, omitted := diagnose(fn.Spec.Function)
	return verdict{diagnostics: diagnostics, omitted: omitted}
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
