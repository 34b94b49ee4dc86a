package e2e

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
)

// ordered calls a Function with the messages of a stream.
const ordered = `
apiVersion: goless.io/v1alpha1
kind: NATSTrigger
metadata: {name: ordered}
spec:
  functionRef: {name: called}
  servers: ["nats://nats.%s.svc:4222"]
  stream: ORDERS
  subject: orders.>
`

// A message of a stream wakes a sleeping Function, and is acknowledged. A deleted trigger
// leaves no objects.
func TestNATSTrigger(t *testing.T) {
	t.Parallel()
	const messages = 3
	ns := newNamespace(t)
	js := ns.startNATS()
	stream, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders.>"}})
	if err != nil {
		t.Fatal(err)
	}
	fn := ns.asleep(ns.ready(ns.apply(function("called", answering("called"), sleeping))))
	ns.applyYAML(fmt.Sprintf(ordered, ns.name))
	ns.kubectl("wait", "natstrigger/ordered", "--for=condition=Ready", "--timeout="+patience.String())

	for n := range messages {
		if _, err := js.Publish(t.Context(), fmt.Sprintf("orders.%d", n), []byte("{}")); err != nil {
			t.Fatal(err)
		}
	}
	ns.becomes(fn, "awake", func(fn *v1beta1.Function) bool {
		return condition(fn, v1beta1.ConditionReady).Reason == v1beta1.ReasonServing
	})
	ns.eventually("all messages are acknowledged", func() error {
		consumer, err := stream.Consumer(t.Context(), "goless_"+ns.name+"_ordered")
		if err != nil {
			return err
		}
		if info := consumer.CachedInfo(); info.AckFloor.Stream != messages {
			return fmt.Errorf("it has acknowledged %d of %d messages", info.AckFloor.Stream, messages)
		}
		return nil
	})
	ns.kubectl("wait", "natstrigger/ordered", "--for=condition=Ready", "--timeout="+patience.String())
	ns.kubectl("wait", "natstrigger/ordered", "--for=condition=Delivered", "--timeout="+patience.String())

	ns.kubectl("delete", "natstrigger/ordered")
	left := func(object client.Object) bool { return object.GetLabels()["goless.io/trigger"] != "" }
	gone(ns, "no Deployment of the trigger is left", func(o *appsv1.Deployment) bool { return left(o) })
	gone(ns, "no ReplicaSet of the trigger is left", func(o *appsv1.ReplicaSet) bool { return left(o) })
	gone(ns, "no pod of the trigger is left", func(o *corev1.Pod) bool { return left(o) })
}

// startNATS runs a NATS server in the namespace, and connects to it.
func (ns *namespace) startNATS() jetstream.JetStream {
	ns.t.Helper()
	image := os.Getenv("NATS_IMAGE")
	if image == "" {
		ns.t.Fatal("NATS_IMAGE is not set; run make e2e, which builds that image")
	}
	text, err := os.ReadFile("testdata/nats.yaml")
	if err != nil {
		ns.t.Fatal(err)
	}
	ns.applyYAML(strings.Replace(string(text), "NATS_IMAGE", image, 1))
	ns.kubectl("rollout", "status", "deployment/nats", "--timeout="+patience.String())
	nc, err := nats.Connect("nats://"+forward(ns.t, ns.name, "service/nats", "4222"), nats.MaxReconnects(-1), nats.Timeout(time.Minute)) // the port-forward of a busy machine is slow
	if err != nil {
		ns.t.Fatal(err)
	}
	ns.t.Cleanup(nc.Close)
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(patience))
	if err != nil {
		ns.t.Fatal(err)
	}
	return js
}
