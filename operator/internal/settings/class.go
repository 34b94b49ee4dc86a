package settings

import (
	"cmp"

	"goless.io/operator/api/v1beta1"
)

// Of returns the settings for a Function with the given class. Fields that the class does not set
// come from the file. It returns s if class is nil.
func (s Settings) Of(class *v1beta1.FunctionClass) Settings {
	if class == nil {
		return s
	}
	spec := &class.Spec
	s.Class = spec
	s.Function.Resources = mergeResources(spec.Resources, s.Function.Resources)
	s.Function.MaxResources = mergeAmounts(spec.MaxResources, s.Function.MaxResources)
	s.Build.Strategy = cmp.Or(spec.Build.Strategy, s.Build.Strategy)
	s.Build.Resources = mergeResources(spec.Build.Resources, s.Build.Resources)
	s.Build.MaxResources = mergeAmounts(spec.Build.MaxResources, s.Build.MaxResources)
	if spec.Build.Modules != nil {
		s.Build.Modules = *spec.Build.Modules
	}
	return s
}

// mergeResources returns the amounts of the class, or those of the file where the class sets none.
func mergeResources(class, file v1beta1.Resources) v1beta1.Resources {
	return v1beta1.Resources{Requests: mergeAmounts(class.Requests, file.Requests), Limits: mergeAmounts(class.Limits, file.Limits)}
}

func mergeAmounts(class, file v1beta1.Amounts) v1beta1.Amounts {
	return v1beta1.Amounts{
		CPU:              cmp.Or(class.CPU, file.CPU),
		Memory:           cmp.Or(class.Memory, file.Memory),
		EphemeralStorage: cmp.Or(class.EphemeralStorage, file.EphemeralStorage),
	}
}
