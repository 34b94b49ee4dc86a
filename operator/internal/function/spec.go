package function

import (
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/desired"
	"goless.io/operator/internal/settings"
)

// defaultMaxBuildTimeout is the most that spec.build.timeout may be where the
// settings do not say.
const defaultMaxBuildTimeout = 10 * time.Minute

// findings collect what is wrong with a spec, each with its field.
type findings []string

func (f *findings) say(field, format string, args ...any) {
	*f = append(*f, field+": "+fmt.Sprintf(format, args...))
}

func (f *findings) sayAll(field string, messages []string) {
	for _, message := range messages {
		f.say(field, "%s", message)
	}
}

// checkSpec repeats what the schema of the API holds already, because an object
// may be older than the schema, and holds it against the ceilings of the
// cluster.
func checkSpec(fn *v1beta1.Function, s settings.Settings) findings {
	var f findings
	f.sayAll("metadata.name", validation.IsDNS1123Label(fn.Name))
	f.sayAll("spec.service", validation.IsDNS1035Label(fn.ServiceName()))
	f.sayAll("spec.serverPort", validation.IsValidPortNum(int(fn.Port())))
	if fn.Port() == v1beta1.AdminPort {
		f.say("spec.serverPort", "%d is taken by metrics and health checks", v1beta1.AdminPort)
	}
	if fn.WantedReplicas() < 0 {
		f.say("spec.replicas", "must not be negative")
	}
	if most := s.Function.MaxReplicas; most > 0 && fn.WantedReplicas() > most {
		f.say("spec.replicas", "this cluster allows at most %d", most)
	}
	if timeout := fn.RequestTimeout(); timeout < 0 || timeout > time.Hour {
		f.say("spec.timeout", "must be 0s, for none, or at most 1h")
	}
	if fn.Spec.Concurrency < 0 {
		f.say("spec.concurrency", "must not be negative")
	}
	f.environment(fn)
	f.resources("spec.resources", fn.Spec.Resources, s.Function.MaxResources.List())
	f.build(fn.Spec.Build, s)
	return f
}

func (f *findings) environment(fn *v1beta1.Function) {
	names := map[string]bool{}
	for i, v := range fn.Spec.Env {
		field := fmt.Sprintf("spec.env[%d]", i)
		switch {
		case desired.Reserved(v.Name):
			f.say(field, "%s is set by Goless: choose another name", v.Name)
		case names[v.Name]:
			f.say(field, "%s is there already", v.Name)
		case v.Value != "" && v.ValueFrom != nil:
			f.say(field, "give value or valueFrom, not both")
		case v.ValueFrom != nil && count(v.ValueFrom.ConfigMapKeyRef != nil, v.ValueFrom.SecretKeyRef != nil, v.ValueFrom.FieldRef != nil) != 1:
			f.say(field, "give exactly one of configMapKeyRef, secretKeyRef and fieldRef")
		}
		names[v.Name] = true
	}
	for i, from := range fn.Spec.EnvFrom {
		if count(from.ConfigMapRef != nil, from.SecretRef != nil) != 1 {
			f.say(fmt.Sprintf("spec.envFrom[%d]", i), "give exactly one of configMapRef and secretRef")
		}
	}
}

// count is how many hold.
func count(holds ...bool) int {
	n := 0
	for _, h := range holds {
		if h {
			n++
		}
	}
	return n
}

func (f *findings) build(build *v1beta1.BuildSpec, s settings.Settings) {
	if build == nil {
		return
	}
	f.resources("spec.build.resources", build.Resources, desired.BuildCeiling(s))
	if build.Timeout == nil {
		return
	}
	most := s.Build.MaxTimeout.Duration
	if most == 0 {
		most = defaultMaxBuildTimeout
	}
	switch timeout := build.Timeout.Duration; {
	case timeout <= 0:
		f.say("spec.build.timeout", "must be more than 0s")
	case timeout > most:
		f.say("spec.build.timeout", "this cluster allows at most %s", most)
	}
}

// resources holds what is asked for against the ceiling and against itself.
func (f *findings) resources(field string, asked *v1beta1.Resources, ceiling corev1.ResourceList) {
	if asked == nil {
		return
	}
	for _, list := range []struct {
		field   string
		amounts corev1.ResourceList
	}{{field + ".requests", asked.Requests.List()}, {field + ".limits", asked.Limits.List()}} {
		for _, name := range slices.Sorted(maps.Keys(list.amounts)) {
			amount := list.amounts[name]
			most, limited := ceiling[name]
			switch {
			case amount.Sign() < 0:
				f.say(list.field, "%s must not be negative", name)
			case limited && amount.Cmp(most) > 0:
				f.say(list.field, "%s of %s: this cluster allows at most %s", amount.String(), name, most.String())
			}
		}
	}
	requests, limits := asked.Requests.List(), asked.Limits.List()
	for _, name := range slices.Sorted(maps.Keys(requests)) {
		request := requests[name]
		if limit, ok := limits[name]; ok && request.Cmp(limit) > 0 {
			f.say(field, "the request of %s %s is more than the limit of %s", request.String(), name, limit.String())
		}
	}
}
