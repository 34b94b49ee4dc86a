package validation

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/desired"
	"goless.io/operator/internal/settings"
)

// limitErrors checks the spec against the limits of the cluster.
func limitErrors(fn *v1beta1.Function, s settings.Settings) (errs field.ErrorList) {
	spec := field.NewPath("spec")
	least, most := fn.Bounds()
	switch ceiling := desired.MaxReplicas(s); {
	case least > ceiling && fn.Spec.Scaling == nil:
		errs = append(errs, field.Invalid(spec.Child("replicas"), least, atMost(ceiling)))
	case most > ceiling && fn.Spec.Scaling.Max != nil: // min may be that of a window
		errs = append(errs, field.Invalid(spec.Child("scaling", "max"), most, atMost(ceiling)))
	case least > ceiling:
		errs = append(errs, field.Invalid(spec.Child("scaling", "min"), least, atMost(ceiling)))
	}
	errs = append(errs, ceilingErrors(spec.Child("resources"), fn.Spec.Resources, desired.FunctionCeiling(s))...)
	errs = append(errs, scratchErrors(spec.Child("scratch", "size"), fn, s)...)
	if build := fn.Spec.Build; build != nil {
		errs = append(errs, ceilingErrors(spec.Child("build", "resources"), build.Resources, desired.BuildCeiling(s))...)
		if most := desired.MaxBuildTimeout(s); build.Timeout != nil && build.Timeout.Duration > most {
			errs = append(errs, field.Invalid(spec.Child("build", "timeout"), build.Timeout.Duration.String(), atMost(most)))
		}
	}
	return errs
}

func atMost(ceiling any) string { return fmt.Sprintf("this cluster allows at most %v", ceiling) }

// ceilingErrors checks resources against the maximum for each resource.
func ceilingErrors(path *field.Path, asked *v1beta1.Resources, ceiling corev1.ResourceList) (errs field.ErrorList) {
	if asked == nil {
		return nil
	}
	compare := func(path *field.Path, amounts corev1.ResourceList) {
		for _, name := range slices.Sorted(maps.Keys(amounts)) {
			amount := amounts[name]
			if most, limited := ceiling[name]; limited && amount.Cmp(most) > 0 {
				errs = append(errs, field.Invalid(path.Child(string(name)), amount.String(), atMost(most.String())))
			}
		}
	}
	compare(path.Child("requests"), asked.Requests.List())
	compare(path.Child("limits"), asked.Limits.List())
	return errs
}

// scratchErrors checks the size of /tmp against the limit that its files count towards. A larger
// volume could not be filled.
func scratchErrors(path *field.Path, fn *v1beta1.Function, s settings.Settings) field.ErrorList {
	if fn.Spec.Scratch == nil {
		return nil
	}
	resource := corev1.ResourceEphemeralStorage
	if fn.Spec.Scratch.Medium == v1beta1.ScratchInMemory {
		resource = corev1.ResourceMemory
	}
	limit, limited := desired.FunctionLimits(fn, s)[resource]
	if !limited || fn.Spec.Scratch.Size.Cmp(limit) < 0 {
		return nil
	}
	return field.ErrorList{field.Invalid(path, fn.Spec.Scratch.Size.String(),
		fmt.Sprintf("must be less than spec.resources.limits.%s (%s), because files in /tmp count towards it", resource, limit.String()))}
}
