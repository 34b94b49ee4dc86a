package main

import (
	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// admitIngress sets the address in the status of an Ingress, and returns its rules. It ignores
// those of other classes.
func (w *world) admitIngress(ingress *networkingv1.Ingress) rules {
	if ingress.Spec.IngressClassName == nil || *ingress.Spec.IngressClassName != class {
		return nil
	}
	ingress.Status.LoadBalancer.Ingress = []networkingv1.IngressLoadBalancerIngress{{Hostname: "gateway.goless-e2e-gateway.svc"}}
	var all rules
	for _, from := range ingress.Spec.Rules {
		if from.HTTP == nil {
			continue
		}
		for _, path := range from.HTTP.Paths {
			all = append(all, rule{
				host: from.Host, path: path.Path, exact: path.PathType != nil && *path.PathType == networkingv1.PathTypeExact,
				backends: []backend{{address: w.resolveIngress(ingress, path.Backend.Service), weight: 1}},
			})
		}
	}
	return all
}

// resolveIngress returns the address of a Service, whose port has a number or a name.
func (w *world) resolveIngress(ingress *networkingv1.Ingress, ref *networkingv1.IngressServiceBackend) string {
	if ref == nil {
		return ""
	}
	service := w.services[client.ObjectKey{Namespace: ingress.Namespace, Name: ref.Name}]
	port := ref.Port.Number
	for _, p := range service.Spec.Ports {
		if ref.Port.Name != "" && p.Name == ref.Port.Name {
			port = p.Port
		}
	}
	return addressOf(service, port)
}
