package gateway

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"goless.io/trigger/api/v1alpha1"
	"goless.io/trigger/internal/functionref"
)

// byHostname is the name of the index of HTTPTriggers by hostname.
const byHostname = "hostnames"

// Index adds an index of HTTPTriggers by hostname to a cache.
func Index(ctx context.Context, indexer client.FieldIndexer) error {
	err := indexer.IndexField(ctx, &v1alpha1.HTTPTrigger{}, byHostname, func(obj client.Object) []string {
		var names []string
		for _, host := range obj.(*v1alpha1.HTTPTrigger).Spec.Hostnames {
			names = append(names, string(host))
		}
		return names
	})
	if err != nil {
		return fmt.Errorf("indexing HTTPTriggers by their hostnames: %w", err)
	}
	return nil
}

// Competing maps an HTTPTrigger to the other HTTPTriggers, in all namespaces, that use one of its
// hostnames.
func (k Kind) Competing(ctx context.Context, t client.Object) []reconcile.Request {
	competing, _ := k.competing(ctx, t.(*v1alpha1.HTTPTrigger)) // an error means that the cache has stopped
	var requests []reconcile.Request
	for _, competitor := range competing {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&competitor)})
	}
	return requests
}

// OfNamespace maps a namespace to its HTTPTriggers and the triggers that compete with them.
func (k Kind) OfNamespace(ctx context.Context, namespace client.Object) []reconcile.Request {
	var list v1alpha1.HTTPTriggerList
	_ = k.Client.List(ctx, &list, client.InNamespace(namespace.GetName())) // same as in Competing
	var requests []reconcile.Request
	for _, t := range list.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&t)})
		requests = append(requests, k.Competing(ctx, &t)...)
	}
	return requests
}

// competing returns the other HTTPTriggers that use one of the hostnames of t.
func (k Kind) competing(ctx context.Context, t *v1alpha1.HTTPTrigger) (competing []v1alpha1.HTTPTrigger, err error) {
	seen := map[types.UID]bool{t.UID: true}
	for _, host := range t.Spec.Hostnames {
		var list v1alpha1.HTTPTriggerList
		err = errors.Join(err, k.Client.List(ctx, &list, client.MatchingFields{byHostname: string(host)}))
		for _, other := range list.Items {
			if !seen[other.UID] {
				competing, seen[other.UID] = append(competing, other), true
			}
		}
	}
	return competing, err
}

// patterns returns the hostnames that a namespace may use.
func (k Kind) patterns(ctx context.Context, name string) ([]string, error) {
	var namespace corev1.Namespace
	if err := k.Client.Get(ctx, client.ObjectKey{Name: name}, &namespace); err != nil {
		return nil, err
	}
	return strings.Fields(namespace.Annotations[v1alpha1.HostnamesAnnotation]), nil
}

// refused returns the reason why a trigger may not have a route, or nil.
func (k Kind) refused(t *v1alpha1.HTTPTrigger, seen Seen) *functionref.Problem {
	if len(t.Spec.ParentRefs) > 0 && !k.Gateways {
		return &functionref.Problem{
			Reason: v1alpha1.ReasonNoGatewayAPI, Stalled: true,
			Message: "spec.parentRefs: the Gateway API is not installed (the cluster does not have the kinds Gateway and HTTPRoute)",
		}
	}
	patterns := seen.Patterns[t.Namespace]
	if host, ok := foreign(t, patterns); ok {
		return &functionref.Problem{Reason: v1alpha1.ReasonHostnameNotAllowed, Stalled: true, Message: fmt.Sprintf(
			"spec.hostnames: %s is not allowed in namespace %s, whose annotation %s is %q; an administrator can add the hostname",
			host, t.Namespace, v1alpha1.HostnamesAnnotation, strings.Join(patterns, " "))}
	}
	if host, by := taken(t, seen); by != nil {
		whose := "HTTPTrigger " + by.Name
		if by.Namespace != t.Namespace {
			whose = "a trigger of another namespace" // do not disclose names of other namespaces
		}
		return &functionref.Problem{
			Reason: v1alpha1.ReasonHostnameTaken, Stalled: true,
			Message: fmt.Sprintf("spec.hostnames: %s with the path %s is already used by %s, which is older", host, t.Spec.Path, whose),
		}
	}
	return nil
}

// foreign returns the first hostname of a trigger that its namespace may not use.
func foreign(t *v1alpha1.HTTPTrigger, patterns []string) (v1alpha1.Hostname, bool) {
	for _, host := range t.Spec.Hostnames {
		if !allowed(string(host), patterns) {
			return host, true
		}
	}
	return "", false
}

// allowed reports whether a hostname is one of the patterns, or below a pattern that begins with *.
func allowed(host string, patterns []string) bool {
	for _, p := range patterns {
		if below, ok := strings.CutPrefix(p, "*"); host == p || ok && strings.HasPrefix(below, ".") && strings.HasSuffix(host, below) {
			return true
		}
	}
	return false
}

// taken returns a hostname that an older trigger uses with the same path, and that trigger. A competitor
// is ignored if its namespace may not use its hostnames, or if it can coexist with the trigger (see
// beside).
func taken(t *v1alpha1.HTTPTrigger, seen Seen) (v1alpha1.Hostname, *v1alpha1.HTTPTrigger) {
	for i := range seen.Competing {
		competitor := &seen.Competing[i]
		if competitor.Spec.Path != t.Spec.Path || !older(competitor, t) || beside(competitor, t) {
			continue
		}
		if _, refused := foreign(competitor, seen.Patterns[competitor.Namespace]); refused {
			continue
		}
		for _, host := range t.Spec.Hostnames {
			if slices.Contains(competitor.Spec.Hostnames, host) {
				return host, competitor
			}
		}
	}
	return "", nil
}

// beside reports whether two triggers of a namespace can serve the same requests without a conflict
// because different proxies serve them. It allows moving a hostname without an outage.
func beside(a, b *v1alpha1.HTTPTrigger) bool {
	if a.Namespace != b.Namespace {
		return false
	}
	if len(a.Spec.ParentRefs) > 0 || len(b.Spec.ParentRefs) > 0 {
		return len(a.Spec.ParentRefs) == 0 || len(b.Spec.ParentRefs) == 0
	}
	// Without a class, the default class applies, which may be the class of the other.
	return a.Spec.IngressClassName != "" && b.Spec.IngressClassName != "" && a.Spec.IngressClassName != b.Spec.IngressClassName
}

// older reports whether a is older than b. Triggers of the same age are ordered by name.
func older(a, b *v1alpha1.HTTPTrigger) bool {
	if !a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.CreationTimestamp.Before(&b.CreationTimestamp)
	}
	return a.Namespace+"/"+a.Name < b.Namespace+"/"+b.Name
}
