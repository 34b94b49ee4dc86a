package desired

import (
	"slices"
	"strconv"

	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/settings"
)

type envVar = corev1ac.EnvVarApplyConfiguration

// functionEnv returns the variables that the runtime reads, followed by those of the author, whose
// values may refer to earlier ones. The variables that the API reserves are set even to their
// defaults, because env overrides envFrom. SERVER_LISTENER and ADMIN_LISTENER are not set: the
// launcher removes them from its environment.
func functionEnv(fn *v1beta1.Function, s settings.Settings, revision string) []*envVar {
	all := []*envVar{
		env("SERVER_PORT", portString(fn.Port())),
		env("ADMIN_PORT", portString(v1beta1.AdminPort)),
		env("FUNCTION_NAME", fn.Name),
		env("FUNCTION_NAMESPACE", fn.Namespace),
		env("FUNCTION_REVISION", revision),
		env("REQUEST_TIMEOUT", fn.RequestTimeout().String()),
		env("REQUEST_CONCURRENCY", strconv.Itoa(int(fn.Spec.Concurrency))),
	}
	all = append(all, drainEnv(fn, s)...)
	for _, v := range fn.Spec.Env {
		all = append(all, userEnv(v))
	}
	return all
}

// HasVariable reports whether the author of a Function sets a variable in env.
func HasVariable(fn *v1beta1.Function, name string) bool {
	return slices.ContainsFunc(fn.Spec.Env, func(v v1beta1.EnvVar) bool { return v.Name == name })
}

func userEnv(v v1beta1.EnvVar) *envVar {
	all := converted(v, corev1ac.EnvVar())
	if all.ValueFrom != nil && all.ValueFrom.FieldRef != nil {
		all.ValueFrom.FieldRef.WithAPIVersion("v1") // which the API server would add
	}
	return all
}

func functionEnvFrom(fn *v1beta1.Function) []*corev1ac.EnvFromSourceApplyConfiguration {
	var all []*corev1ac.EnvFromSourceApplyConfiguration
	for _, from := range fn.Spec.EnvFrom {
		all = append(all, converted(from, corev1ac.EnvFromSource()))
	}
	return all
}

// variable is an environment variable of the go command.
type variable struct{ name, value string }

// moduleVariables returns the variables that configure where the go command fetches modules.
func moduleVariables(m v1beta1.Modules) []variable {
	return slices.DeleteFunc([]variable{
		{"GOPROXY", m.GoProxy},
		{"GOPRIVATE", m.GoPrivate},
		{"GONOPROXY", m.GoNoProxy},
		{"GONOSUMDB", m.GoNoSumDB},
		{"GOSUMDB", m.GoSumDB},
		{"HTTP_PROXY", m.HTTPProxy},
		{"HTTPS_PROXY", m.HTTPSProxy},
		{"NO_PROXY", m.NoProxy},
	}, func(v variable) bool { return v.value == "" })
}

// moduleEnv returns moduleVariables and the paths of the certificates and credentials.
func moduleEnv(m v1beta1.Modules) []*envVar {
	var all []*envVar
	for _, v := range moduleVariables(m) {
		all = append(all, env(v.name, v.value))
	}
	if m.CABundle.Name != "" {
		all = append(all, env("SSL_CERT_FILE", caDir+"/"+caFile))
	}
	if m.Netrc.Name != "" {
		all = append(all, env("NETRC", netrcDir+"/"+netrcFile))
	}
	return all
}

// env returns a variable. It omits an empty value, which the API server does not store: otherwise
// the variable would be applied repeatedly.
func env(name, value string) *envVar {
	v := corev1ac.EnvVar().WithName(name)
	if value != "" {
		v.WithValue(value)
	}
	return v
}
