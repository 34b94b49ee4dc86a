package check

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/desired"
	"goless.io/operator/internal/settings"
	"goless.io/operator/internal/status"
)

// Findings are what is wrong with a spec, each with its field.
type Findings []string

func (f *Findings) say(field, format string, args ...any) {
	*f = append(*f, field+": "+fmt.Sprintf(format, args...))
}

func (f *Findings) sayAll(field string, messages []string) {
	for _, message := range messages {
		f.say(field, "%s", message)
	}
}

// Problem is all of them as one; nil when there are none.
func (f Findings) Problem() *status.Problem {
	if len(f) == 0 {
		return nil
	}
	return &status.Problem{Reason: v1beta1.ReasonInvalidSpec, Message: strings.Join(f, "; ")}
}

// spec repeats what the schema of the API holds already, because an object
// may be older than the schema.
func spec(fn *v1beta1.Function) Findings {
	var f Findings
	if fn.Spec.Unreadable != "" {
		f.say("spec", "cannot be read, write it anew: %s", fn.Spec.Unreadable)
		return f
	}
	f.sayAll("metadata.name", validation.IsDNS1123Label(fn.Name))
	f.sayAll("spec.service", validation.IsDNS1035Label(fn.ServiceName()))
	f.sayAll("spec.serverPort", validation.IsValidPortNum(int(fn.Port())))
	if fn.Port() == v1beta1.AdminPort {
		f.say("spec.serverPort", "%d is taken by metrics and health checks", v1beta1.AdminPort)
	}
	if fn.WantedReplicas() < 0 {
		f.say("spec.replicas", "must not be negative")
	}
	if timeout := fn.RequestTimeout(); timeout < 0 || timeout > time.Hour {
		f.say("spec.timeout", "must be 0s, for none, or from 1ms to 1h")
	}
	if fn.Spec.Concurrency < 0 {
		f.say("spec.concurrency", "must not be negative")
	}
	f.environment(fn)
	f.resources("spec.resources", fn.Spec.Resources)
	if build := fn.Spec.Build; build != nil {
		if !build.Strategy.Known() {
			f.say("spec.build.strategy", "%q must be %s or %s", build.Strategy, v1beta1.BuildInPod, v1beta1.BuildShared)
		}
		f.resources("spec.build.resources", build.Resources)
		if build.Timeout != nil && build.Timeout.Duration <= 0 {
			f.say("spec.build.timeout", "must be more than 0s")
		}
	}
	return f
}

// ceilings holds the spec against the ceilings of the cluster.
func ceilings(fn *v1beta1.Function, s settings.Settings) Findings {
	var f Findings
	if most := s.Function.MaxReplicas; most > 0 && fn.WantedReplicas() > most {
		f.say("spec.replicas", "this cluster allows at most %d", most)
	}
	f.ceiling("spec.resources", fn.Spec.Resources, s.Function.MaxResources.List())
	if build := fn.Spec.Build; build != nil {
		f.ceiling("spec.build.resources", build.Resources, desired.BuildCeiling(s))
		if most := desired.MaxBuildTimeout(s); build.Timeout != nil && build.Timeout.Duration > most {
			f.say("spec.build.timeout", "this cluster allows at most %s", most)
		}
	}
	return f
}

func (f *Findings) environment(fn *v1beta1.Function) {
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
	for _, ref := range desired.References(fn) {
		f.sayAll("spec.env: "+ref.Name, validation.IsDNS1123Subdomain(ref.Name))
		if ref.Key != "" {
			f.sayAll("spec.env: "+ref.Key, validation.IsConfigMapKey(ref.Key))
		}
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

// ceiling says what is asked for beyond a ceiling.
func (f *Findings) ceiling(field string, asked *v1beta1.Resources, ceiling corev1.ResourceList) {
	if asked == nil {
		return
	}
	for _, list := range []struct {
		field   string
		amounts corev1.ResourceList
	}{{field + ".requests", asked.Requests.List()}, {field + ".limits", asked.Limits.List()}} {
		for _, name := range slices.Sorted(maps.Keys(list.amounts)) {
			amount := list.amounts[name]
			if most, limited := ceiling[name]; limited && amount.Cmp(most) > 0 {
				f.say(list.field, "%s of %s: this cluster allows at most %s", amount.String(), name, most.String())
			}
		}
	}
}

// resources holds what is asked for against itself.
func (f *Findings) resources(field string, asked *v1beta1.Resources) {
	if asked == nil {
		return
	}
	for _, list := range []struct {
		field   string
		amounts corev1.ResourceList
		limits  bool
	}{{field + ".requests", asked.Requests.List(), false}, {field + ".limits", asked.Limits.List(), true}} {
		for _, name := range slices.Sorted(maps.Keys(list.amounts)) {
			amount := list.amounts[name]
			switch {
			case amount.Sign() < 0:
				f.say(list.field, "%s must not be negative", name)
			case amount.IsZero() && list.limits: // which is no limit to the kubelet
				f.say(list.field, "%s must be more than 0", name)
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
