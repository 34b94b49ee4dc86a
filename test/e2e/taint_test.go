package e2e

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
)

// A function for a tainted node waits and reports the taint, until its class tolerates it. Not
// parallel, because no other pod can start on the node.
func TestTaintedNode(t *testing.T) {
	ns := newNamespace(t)
	node := taint(t, "goless-e2e")
	class := &v1beta1.FunctionClass{ObjectMeta: metav1.ObjectMeta{Name: ns.name}}
	class.Spec.NodeSelector = map[string]string{corev1.LabelHostname: node.Labels[corev1.LabelHostname]}
	createInCluster(t, class)
	ofClass := func(spec *v1beta1.FunctionSpec) { spec.ClassName = class.Name }
	all := []*v1beta1.Function{
		ns.apply(shared("shared", answering("tolerated"), ofClass)),
		ns.apply(inPod("in-pod", answering("tolerated"), ofClass)),
	}
	for _, fn := range all {
		ns.becomes(fn, "told of the taint", func(fn *v1beta1.Function) bool {
			message := condition(fn, v1beta1.ConditionReady).Message
			return strings.Contains(message, "the pod is not scheduled: ") && strings.Contains(message, "taint")
		})
	}
	before := client.MergeFrom(class.DeepCopy())
	class.Spec.Tolerations = []corev1.Toleration{{Key: "goless-e2e", Operator: corev1.TolerationOpExists}}
	if err := cluster.Patch(t.Context(), class, before); err != nil {
		t.Fatal(err)
	}
	for _, fn := range all {
		ns.answers(ns.ready(fn), "tolerated")
	}
}

// taint adds a NoSchedule taint to a node until the test ends. Running pods stay.
func taint(t *testing.T, key string) *corev1.Node {
	t.Helper()
	var nodes corev1.NodeList
	if err := cluster.List(t.Context(), &nodes); err != nil {
		t.Fatal(err)
	}
	node := &nodes.Items[len(nodes.Items)-1]
	change := func(ctx context.Context, change string) error {
		_, err := kubectl(ctx, "taint", "node", node.Name, key+change)
		return err
	}
	t.Cleanup(func() {
		if err := change(context.Background(), ":NoSchedule-"); err != nil {
			t.Error(err)
		}
	})
	if err := change(t.Context(), ":NoSchedule"); err != nil {
		t.Fatal(err)
	}
	return node
}
