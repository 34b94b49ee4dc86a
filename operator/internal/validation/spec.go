package validation

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/desired"
	"goless.io/operator/internal/settings"
	"goless.io/operator/internal/windows"
)

// specErrors validates what the schema of the API cannot express, because it compares quantities or
// several fields.
func specErrors(fn *v1beta1.Function) (errs field.ErrorList) {
	spec := field.NewPath("spec")
	if fn.Spec.Unreadable != "" {
		return field.ErrorList{field.Invalid(spec, field.OmitValueType{}, "cannot be decoded: "+fn.Spec.Unreadable)}
	}
	if fn.Spec.DrainSeconds != nil && desired.HasVariable(fn, desired.DrainTimeoutName) {
		errs = append(errs, field.Forbidden(spec.Child("drainSeconds"), "spec.env sets "+desired.DrainTimeoutName+", which is the same setting; remove one of them"))
	}
	errs = append(errs, scalingErrors(spec.Child("scaling"), fn)...)
	errs = append(errs, windows.Errors(spec.Child("scaling", "windows"), fn)...)
	errs = append(errs, fn.Spec.Resources.Validate(spec.Child("resources"))...)
	if fn.Spec.Build != nil {
		errs = append(errs, fn.Spec.Build.Resources.Validate(spec.Child("build", "resources"))...)
	}
	return errs
}

// scalingErrors checks the target CPU usage of a replica against its CPU limit.
func scalingErrors(path *field.Path, fn *v1beta1.Function) field.ErrorList {
	s, r := fn.Spec.Scaling, fn.Spec.Resources
	if s == nil || s.CPU == nil || r == nil || r.Limits.CPU == nil || s.CPU.Cmp(*r.Limits.CPU) < 0 {
		return nil
	}
	return field.ErrorList{field.Invalid(path.Child("cpu"), s.CPU.String(),
		fmt.Sprintf("must be less than spec.resources.limits.cpu (%s); otherwise no replica could exceed the target, and the function would never scale up", r.Limits.CPU))}
}

// NoTestsInPod is the error for a Function with tests whose source is compiled in its pods.
const NoTestsInPod = "only the build service compiles tests, and this source is compiled InPod; set spec.build.strategy to Shared, or remove spec.build.test; with modules.caBundle or modules.netrc, a source with a go.mod is always compiled InPod"

// Tests checks that the tests of a Function can be compiled. The admission webhook rejects a Function
// whose tests cannot. The operator does not, because the settings may have changed: it reports the
// reason TestsFailed for the next version, and keeps the current one.
func Tests(fn *v1beta1.Function, s settings.Settings) field.ErrorList {
	if !fn.Tests() || desired.Strategy(fn, s) == v1beta1.BuildShared {
		return nil
	}
	return field.ErrorList{field.Forbidden(field.NewPath("spec", "build", "test"), NoTestsInPod)}
}
