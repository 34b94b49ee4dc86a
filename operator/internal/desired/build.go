package desired

import (
	"cmp"
	"time"

	"goless.io/builder/remote"
	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/settings"
)

// Strategy is where the source of a Function is compiled. The build service has no
// credentials of any namespace, so what needs some is compiled there.
func Strategy(fn *v1beta1.Function, s settings.Settings) v1beta1.BuildStrategy {
	asked := cmp.Or(s.Build.Strategy, v1beta1.BuildShared)
	if fn.Spec.Build != nil {
		asked = cmp.Or(fn.Spec.Build.Strategy, asked)
	}
	if m := s.Build.Modules; (m.CABundle.Name != "" || m.Netrc.Name != "") && Summary(fn).Modules {
		return v1beta1.BuildInPod
	}
	return asked
}

// Order is what the build service is asked for: the same build, in the same
// limits, that a pod would do.
func Order(fn *v1beta1.Function, s settings.Settings) remote.Order {
	limits := *buildResources(fn, s).Limits
	o := remote.Order{
		Namespace: fn.Namespace, Source: fn.Spec.Function,
		Timeout: buildTimeout(fn, s), Memory: limits.Memory().Value(),
	}
	if Summary(fn).Modules {
		o.Environment = map[string]string{}
		for _, v := range moduleVariables(s.Build.Modules) {
			o.Environment[v.name] = v.value
		}
	}
	return o
}

// defaultMaxBuildTimeout is the most that spec.build.timeout may be where the
// settings do not say.
const defaultMaxBuildTimeout = 10 * time.Minute

// MaxBuildTimeout is the most that spec.build.timeout may be.
func MaxBuildTimeout(s settings.Settings) time.Duration {
	return cmp.Or(s.Build.MaxTimeout.Duration, defaultMaxBuildTimeout)
}

// buildTimeout is how long the compiler may take; 0 leaves it to the builder.
func buildTimeout(fn *v1beta1.Function, s settings.Settings) time.Duration {
	if fn.Spec.Build != nil && fn.Spec.Build.Timeout != nil {
		return min(fn.Spec.Build.Timeout.Duration, MaxBuildTimeout(s))
	}
	return s.Build.Timeout.Duration
}
