package e2e

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
)

// A deleted Function leaves no objects, whatever its state was. A Function whose first source does not
// compile has no pods.
func TestDelete(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	somebodys := ns.apply(function("neighbour", answering("not concerned")))
	serving := ns.apply(function("serving", answering("soon gone"), service("another-name")))
	stopped := ns.apply(function("stopped", answering("soon gone"), replicas(0)))
	broken := ns.apply(function("broken", undefined))
	ns.ready(serving)
	ns.ready(stopped)
	ns.stalled(broken, v1beta1.ReasonCompileFailed)
	// Its pods may have been started while it was compiled.
	gone(ns, "no Deployment of a source that does not compile is left", func(o *appsv1.Deployment) bool { return of(broken, o) })
	gone(ns, "no pod of it is left", func(o *corev1.Pod) bool { return of(broken, o) })
	ns.change(serving, source(answering("on the way")))
	building := ns.apply(function("building", answering("never seen")))
	ns.until("a pod of it is there", func() bool { return len(ns.pods(building)) > 0 })

	for _, fn := range []*v1beta1.Function{serving, stopped, broken, building} {
		ns.kubectl("delete", "function", fn.Name, "--wait=false")
	}
	left := func(object client.Object) bool {
		for _, fn := range []*v1beta1.Function{serving, stopped, broken, building} {
			if of(fn, object) || object.GetUID() == fn.UID {
				return true
			}
		}
		return false
	}
	gone(ns, "no Function is left", func(o *v1beta1.Function) bool { return left(o) })
	gone(ns, "no Deployment is left", func(o *appsv1.Deployment) bool { return left(o) })
	gone(ns, "no ReplicaSet is left", func(o *appsv1.ReplicaSet) bool { return left(o) })
	gone(ns, "no ConfigMap is left", func(o *corev1.ConfigMap) bool { return left(o) })
	gone(ns, "no Service is left", func(o *corev1.Service) bool { return left(o) })
	gone(ns, "no EndpointSlice is left", func(o *discoveryv1.EndpointSlice) bool { return left(o) })
	gone(ns, "no pod is left", func(o *corev1.Pod) bool { return left(o) })

	ns.answers(ns.ready(somebodys), "not concerned")
}
