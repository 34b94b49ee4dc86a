package e2e

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
)

// A new version of the operator, with another builder, restarts no running function, and no
// request fails. On request, the function uses the new builder; new functions always do. Not
// parallel, because it replaces the operator.
func TestUpgradeOfOperator(t *testing.T) {
	ns, elsewhere := newNamespace(t), newNamespace(t)
	fn := ns.ready(ns.apply(inPod("kept", answering("kept"), replicas(2))))
	ns.answers(fn, "kept")
	stop := ns.load(fn)
	before := uids(ns.pods(fn))

	old := builderOf(ns.pod(fn))
	repository, digest, _ := strings.Cut(old, "@")
	upgraded := repository + ":upgraded@" + digest // the same image by another name
	ns.installBuilder(upgraded)
	defer ns.installBuilder(old)

	canary := elsewhere.ready(elsewhere.apply(inPod("canary", answering("new"))))
	if got := builderOf(elsewhere.pod(canary)); got != upgraded {
		t.Errorf("a new function is built by %s, want %s", got, upgraded)
	}
	if diff := cmp.Diff(before, uids(ns.pods(fn))); diff != "" {
		t.Errorf("the upgrade restarted pods:\n%s", diff)
	}

	now := get(ns, fn.Name, &v1beta1.Function{})
	patch := client.MergeFrom(now.DeepCopy())
	now.Annotations = map[string]string{"goless.io/upgrade": "now"}
	if err := ns.client.Patch(t.Context(), now, patch); err != nil {
		t.Fatal(err)
	}
	ns.until("all pods are of the new version", func() bool {
		pods := ns.pods(fn)
		for _, pod := range pods {
			if builderOf(pod) != upgraded || podReady(pod) == nil {
				return false
			}
		}
		return len(pods) == 2
	})
	ns.ready(fn)
	stop()
	ns.alwaysServed(fn)
}

func builderOf(pod *corev1.Pod) string { return pod.Spec.InitContainers[0].Image }

// installBuilder sets another builder image in the operator, and waits until only its new
// replicas run.
func (ns *namespace) installBuilder(image string) {
	ns.t.Helper()
	var operator appsv1.Deployment
	key := client.ObjectKey{Namespace: systemNamespace, Name: operatorName}
	if err := cluster.Get(ns.t.Context(), key, &operator); err != nil {
		ns.t.Fatal(err)
	}
	patch := client.MergeFrom(operator.DeepCopy())
	env := operator.Spec.Template.Spec.Containers[0].Env
	for i := range env {
		if env[i].Name == "BUILDER_IMAGE" {
			env[i].Value = image
		}
	}
	if err := cluster.Patch(ns.t.Context(), &operator, patch); err != nil {
		ns.t.Fatal(err)
	}
	if _, err := kubectl(ns.t.Context(), "-n", systemNamespace, "rollout", "status", "deployment/"+operatorName, "--timeout="+patience.String()); err != nil {
		ns.t.Fatal(err)
	}
	ns.operators()
}
