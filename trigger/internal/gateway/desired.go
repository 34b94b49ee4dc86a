package gateway

import (
	"fmt"
	"math"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	networkingv1ac "k8s.io/client-go/applyconfigurations/networking/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	gatewayv1ac "sigs.k8s.io/gateway-api/applyconfiguration/apis/v1"

	"goless.io/trigger/api/v1alpha1"
	"goless.io/trigger/internal/apply"
	"goless.io/trigger/internal/functionref"
)

// A share is a Service and its share of the requests.
type share struct {
	service string
	port    int32
	weight  int32
	timeout time.Duration // 0 means no timeout
}

// sharesOf returns the Services of the Functions that have one, and the problem of the first
// Function that cannot serve requests.
func sharesOf(t *v1alpha1.HTTPTrigger, seen Seen) (shares []share, problem *functionref.Problem) {
	for _, b := range t.Shares() {
		fn := seen.Functions[b.Function]
		to := functionref.Of(&fn, b.Function)
		if problem == nil {
			problem = to.Problem
		}
		if fn.Status.Service == "" {
			continue
		}
		s := share{service: fn.Status.Service, port: fn.Port(), weight: 1, timeout: to.Timeout}
		if b.Weight != nil {
			s.weight = *b.Weight
		}
		shares = append(shares, s)
	}
	return shares, problem
}

// route returns the HTTPRoute of a trigger.
func route(t *v1alpha1.HTTPTrigger, shares []share) *gatewayv1ac.HTTPRouteApplyConfiguration {
	rule := gatewayv1ac.HTTPRouteRule().
		WithMatches(gatewayv1ac.HTTPRouteMatch().WithPath(gatewayv1ac.HTTPPathMatch().WithType(gatewayv1.PathMatchPathPrefix).WithValue(t.Spec.Path)))
	for _, s := range shares {
		// Set the fields that have defaults: in a list without keys, they would differ from the
		// live object otherwise.
		rule.WithBackendRefs(gatewayv1ac.HTTPBackendRef().WithGroup("").WithKind("Service").
			WithName(gatewayv1.ObjectName(s.service)).WithPort(s.port).WithWeight(s.weight))
	}
	if timeout := timeoutOf(t, shares); timeout > 0 {
		rule.WithTimeouts(gatewayv1ac.HTTPRouteTimeouts().WithRequest(gatewayv1.Duration(fmt.Sprintf("%ds", int(math.Ceil(timeout.Seconds()))))))
	}
	spec := gatewayv1ac.HTTPRouteSpec().WithRules(rule)
	for _, host := range t.Spec.Hostnames {
		spec.WithHostnames(gatewayv1.Hostname(host))
	}
	for _, p := range t.Spec.ParentRefs {
		ref := gatewayv1ac.ParentReference().WithGroup(gatewayv1.GroupName).WithKind("Gateway").WithName(gatewayv1.ObjectName(p.Name))
		if p.Namespace != "" {
			ref.WithNamespace(gatewayv1.Namespace(p.Namespace))
		}
		if p.SectionName != "" {
			ref.WithSectionName(gatewayv1.SectionName(p.SectionName))
		}
		spec.WithParentRefs(ref)
	}
	return gatewayv1ac.HTTPRoute(t.Name, t.Namespace).WithLabels(apply.Labels(t)).WithOwnerReferences(apply.Owner(t)).WithSpec(spec)
}

// timeoutOf returns the maximum duration of a request: spec.timeout, or the timeout of the slowest
// Function. 0 means that the route has no timeout.
func timeoutOf(t *v1alpha1.HTTPTrigger, shares []share) time.Duration {
	if t.Spec.Timeout != nil {
		return t.Spec.Timeout.Duration
	}
	longest := time.Duration(0)
	for _, s := range shares {
		if s.timeout == 0 {
			return 0
		}
		longest = max(longest, s.timeout)
	}
	return longest
}

// ingress returns the Ingress of a trigger. An Ingress has no field for a timeout; each controller
// has its own annotations.
func ingress(t *v1alpha1.HTTPTrigger, to share) *networkingv1ac.IngressApplyConfiguration {
	backend := networkingv1ac.IngressBackend().WithService(networkingv1ac.IngressServiceBackend().WithName(to.service).
		WithPort(networkingv1ac.ServiceBackendPort().WithNumber(to.port)))
	spec := networkingv1ac.IngressSpec()
	tls := networkingv1ac.IngressTLS()
	for _, host := range t.Spec.Hostnames {
		spec.WithRules(networkingv1ac.IngressRule().WithHost(string(host)).WithHTTP(networkingv1ac.HTTPIngressRuleValue().WithPaths(
			networkingv1ac.HTTPIngressPath().WithPath(t.Spec.Path).WithPathType(networkingv1.PathTypePrefix).WithBackend(backend))))
		tls.WithHosts(string(host))
	}
	if t.Spec.IngressClassName != "" {
		spec.WithIngressClassName(t.Spec.IngressClassName)
	}
	if t.Spec.TLS != nil {
		spec.WithTLS(tls.WithSecretName(t.Spec.TLS.SecretName))
	}
	return networkingv1ac.Ingress(t.Name, t.Namespace).WithLabels(apply.Labels(t)).WithOwnerReferences(apply.Owner(t)).WithSpec(spec)
}
