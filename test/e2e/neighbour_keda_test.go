package e2e

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"goless.io/operator/api/v1beta1"
)

// keda installs the operator, the metrics API server and the webhooks of KEDA.
const keda = `
resources: [manifests/default]
images:
  - {name: ghcr.io/kedacore/keda, newName: %s, digest: %s}
  - {name: ghcr.io/kedacore/keda-metrics-apiserver, newName: %s, digest: %s}
  - {name: ghcr.io/kedacore/keda-admission-webhooks, newName: %s, digest: %s}
patches:
  - target: {kind: Deployment, name: keda-operator}
    patch: |
      - {op: replace, path: /spec/template/spec/containers/0/command, value: [/ko-app/operator]}
  - target: {kind: Deployment, name: keda-metrics-apiserver}
    patch: |
      - {op: replace, path: /spec/template/spec/containers/0/command, value: [/ko-app/adapter]}
  - target: {kind: Deployment, name: keda-admission}
    patch: |
      - {op: replace, path: /spec/template/spec/containers/0/command, value: [/ko-app/webhooks]}
`

// accepting accepts an event after a second.
const accepting = `package handlers

import (
	"net/http"
	"time"
)

func Handler(w http.ResponseWriter, r *http.Request) {
	time.Sleep(time.Second)
	w.Write([]byte("done"))
}
`

// scaledRecords and scaledMessages call a Function with the events of a stream, and scale it.
const scaledRecords = `
apiVersion: goless.io/v1alpha1
kind: KafkaTrigger
metadata: {name: records}
spec:
  functionRef: {name: taking}
  topic: orders
  brokers: ["%s:9092"]
  scale: {min: 0, max: 3, lagPerReplica: 20}
`

const scaledMessages = `
apiVersion: goless.io/v1alpha1
kind: NATSTrigger
metadata: {name: ordered}
spec:
  functionRef: {name: taking}
  servers: ["nats://nats.%s.svc:4222"]
  stream: ORDERS
  subject: orders.>
  scale: {min: 0, max: 3, lagPerReplica: 20}
`

// foreignScaledObject scales a Function to one replica at midnight.
const foreignScaledObject = `
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata: {name: foreign}
spec:
  scaleTargetRef: {apiVersion: goless.io/v1beta1, kind: Function, name: %s}
  triggers: [{type: cron, metadata: {timezone: UTC, start: 0 0 * * *, end: 1 0 * * *, desiredReplicas: "1"}}]
`

// KEDA is installed after a trigger with scale, scales Functions, and is removed before triggers.
func TestNeighbourKEDA(t *testing.T) {
	early := newNamespace(t)
	early.ready(early.apply(function("taking", accepting)))
	early.startOrders()
	early.applyYAML(fmt.Sprintf(scaledMessages, early.name))
	early.waitFor("natstrigger/ordered", "jsonpath={.status.conditions[?(@.type=='Ready')].reason}=InvalidSpec")

	remove := installKEDA(t)
	early.waitFor("natstrigger/ordered", "condition=Ready")
	early.waitFor("scaledobject/ordered", "condition=Ready")
	seen(t, "KEDA can be installed after triggers with `scale` were created, and removed before they are deleted.")

	t.Run("Streams", func(t *testing.T) {
		t.Run("Kafka", func(t *testing.T) { t.Parallel(); kedaKafka(t) })
		t.Run("NATS", func(t *testing.T) { t.Parallel(); kedaNATS(t) })
		t.Run("ScaledObject", func(t *testing.T) { t.Parallel(); kedaScaledObject(t) })
		t.Run("Conflict", func(t *testing.T) { t.Parallel(); kedaConflict(t) })
		t.Run("Paused", func(t *testing.T) { t.Parallel(); kedaPaused(t) })
	})

	remove()
	early.waitFor("natstrigger/ordered", "jsonpath={.status.conditions[?(@.type=='Ready')].reason}=InvalidSpec")
	early.kubectl("patch", "natstrigger/ordered", "--type=json", `--patch=[{"op":"remove","path":"/spec/scale"}]`)
	early.kubectl("scale", "function/taking", "--replicas=1")
	early.waitFor("natstrigger/ordered", "condition=Ready")
}

// kedaKafka scales a Function from zero to three replicas and back by the lag of a topic, and loses
// no record.
func kedaKafka(t *testing.T) {
	const n = 400
	ns := newNamespace(t)
	broker := startKafka(ns, n)
	ns.applyYAML(fmt.Sprintf(scaledRecords, broker)) // before there is a Function
	ns.waitFor("kafkatrigger/records", "jsonpath={.status.conditions[?(@.type=='Ready')].reason}=FunctionNotFound")
	fn := ns.ready(ns.apply(function("taking", accepting, replicas(0))))
	ns.becomes(fn, "three replicas", has(3))
	ns.quick("records")
	ns.waitFor("kafkatrigger/records", "condition=Ready")
	pod := ns.kafkaConsumer().Status.PodIP
	ns.eventually("all records are delivered", func() error {
		r, err := caller.call(t.Context(), http.MethodGet, "http://"+pod+":9090/metrics", "")
		if err == nil && !strings.Contains(r.Body, fmt.Sprintf("goless_trigger_events_total{outcome=\"delivered\"} %d\n", n)) {
			err = fmt.Errorf("the pod of the trigger says %d %s", r.Status, r.Error)
		}
		return err
	})
	ns.becomes(fn, "stopped", stopped)
	ns.waitFor("kafkatrigger/records", "condition=Ready")
	ns.kubectl("delete", "kafkatrigger/records", "--timeout=60s")
	ns.waitFor("scaledobject/records", "delete")
	seen(t, "`scale` of a KafkaTrigger scales a Function from 0 to 3 replicas and back.")
}

// kedaNATS scales a Function from zero to three replicas and back by the waiting messages of a
// stream, twice.
func kedaNATS(t *testing.T) {
	ns := newNamespace(t)
	publish := ns.startOrders()
	fn := ns.ready(ns.apply(function("taking", accepting)))
	ns.applyYAML(fmt.Sprintf(scaledMessages, ns.name))
	ns.waitFor("natstrigger/ordered", "condition=Ready")
	ns.quick("ordered")
	for range 2 {
		fn = ns.becomes(fn, "stopped", stopped)
		ns.waitFor("natstrigger/ordered", "condition=Ready")
		publish(400)
		fn = ns.becomes(fn, "three replicas", has(3))
	}
	ns.becomes(fn, "stopped", stopped)
	seen(t, "`scale` of a NATSTrigger scales a Function from 0 to 3 replicas and back.")
}

// kedaScaledObject scales a Function with the documented ScaledObject.
func kedaScaledObject(t *testing.T) {
	ns := newNamespace(t)
	fn := ns.ready(ns.apply(function("taking", accepting, replicas(0))))
	broker := startKafka(ns, 400)
	text, err := os.ReadFile("../../examples/triggers/by-hand-scaledobject.yaml")
	if err != nil {
		t.Fatal(err)
	}
	ns.applyYAML(strings.NewReplacer("kafka.example.com", broker, "function-sample", fn.Name,
		"minReplicaCount: 1", "minReplicaCount: 0", "maxReplicaCount: 10", "maxReplicaCount: 3", `"100"`, `"20"`).Replace(string(text)))
	ns.applyYAML(strings.Replace(fmt.Sprintf(scaledRecords, broker), "scale: {min: 0, max: 3, lagPerReplica: 20}", "consumerGroup: shop", 1))
	ns.waitFor("scaledobject/sample", "condition=Ready")
	ns.becomes(fn, "three replicas", has(3))
	ns.quick("sample")
	ns.becomes(fn, "stopped", stopped)
	seen(t, "A ScaledObject that targets a Function scales it from 0 to 3 replicas and back.")
}

// kedaConflict lets only the oldest of two triggers scale a Function, and then the other one.
func kedaConflict(t *testing.T) {
	ns := newNamespace(t)
	publish := ns.startOrders()
	fn := ns.ready(ns.apply(function("taking", accepting)))
	ns.applyYAML(fmt.Sprintf(scaledRecords, startKafka(ns, 0)))
	ns.waitFor("kafkatrigger/records", "condition=Ready")
	ns.quick("records")
	ns.applyYAML(fmt.Sprintf(scaledMessages, ns.name))
	ns.waitFor("natstrigger/ordered", "jsonpath={.status.conditions[?(@.type=='Ready')].reason}=ScaleConflict")
	if names := ns.kubectl("get", "scaledobjects", "--output=name"); strings.TrimSpace(names) != "scaledobject.keda.sh/records" {
		t.Errorf("there are the ScaledObjects %s", names)
	}
	fn = ns.becomes(fn, "stopped", stopped)
	ns.kubectl("delete", "kafkatrigger/records", "--timeout=60s")
	ns.waitFor("natstrigger/ordered", "condition=Ready")
	ns.quick("ordered")
	publish(400)
	ns.becomes(fn, "three replicas", has(3))
	seen(t, "The second of two triggers on a Function reports `ScaleConflict`, and scales the Function when the first is deleted.")

	// The webhook of KEDA rejects a second ScaledObject, also that of a trigger.
	ns.kubectl("delete", "natstrigger/ordered", "--timeout=60s")
	ns.waitFor("scaledobject/ordered", "delete")
	ns.applyYAML(fmt.Sprintf(foreignScaledObject, fn.Name))
	ns.waitFor("scaledobject/foreign", "condition=Ready")
	ns.applyYAML(fmt.Sprintf(scaledMessages, ns.name))
	ns.waitFor("natstrigger/ordered", "jsonpath={.status.conditions[?(@.type=='Ready')].reason}=ApplyFailed")
	ns.kubectl("delete", "scaledobject/foreign", "--timeout=60s")
	ns.waitFor("natstrigger/ordered", "condition=Ready")
}

// kedaPaused pauses the scaling of a Function. The trigger reports that and keeps the annotation.
func kedaPaused(t *testing.T) {
	ns := newNamespace(t)
	publish := ns.startOrders()
	fn := ns.ready(ns.apply(function("taking", accepting)))
	ns.applyYAML(fmt.Sprintf(scaledMessages, ns.name))
	ns.waitFor("natstrigger/ordered", "condition=Ready")
	ns.quick("ordered")
	fn = ns.becomes(fn, "stopped", stopped)
	ns.kubectl("annotate", "scaledobject/ordered", "autoscaling.keda.sh/paused=true")
	ns.waitFor("scaledobject/ordered", "condition=Paused")
	publish(400)
	ns.eventually("the trigger reports that scaling is paused", func() error {
		if message := ns.kubectl("get", "natstrigger/ordered", "--output=jsonpath={.status.conditions[?(@.type=='Ready')].message}"); !strings.Contains(message, "paused") {
			return errors.New(message)
		}
		return nil
	})
	// A change of the trigger applies to the ScaledObject and does not remove the annotation.
	ns.kubectl("patch", "natstrigger/ordered", "--type=merge", `--patch={"spec":{"scale":{"max":4}}}`)
	ns.waitFor("scaledobject/ordered", "jsonpath={.spec.maxReplicaCount}=4")
	if value := ns.kubectl("get", "scaledobject/ordered", `--output=jsonpath={.metadata.annotations.autoscaling\.keda\.sh/paused} {.spec.pollingInterval}`); value != "true 5" {
		t.Errorf("the annotation and the interval of the user are %q", value)
	}
	if fn := get(ns, fn.Name, &v1beta1.Function{}); *fn.Spec.Replicas != 0 {
		t.Errorf("the paused Function has %d replicas", *fn.Spec.Replicas)
	}
	ns.kubectl("annotate", "scaledobject/ordered", "autoscaling.keda.sh/paused-")
	ns.becomes(fn, "four replicas", has(4))
	seen(t, "A paused ScaledObject of a trigger stays paused.")
}

// stopped reports whether a Function has no replicas.
func stopped(fn *v1beta1.Function) bool {
	return condition(fn, v1beta1.ConditionReady).Reason == v1beta1.ReasonStopped && fn.Status.Replicas == 0
}

// quick lets KEDA poll every 5 seconds, and scale to zero after 15 seconds without events. A user
// can set these fields of the ScaledObject of a trigger.
func (ns *namespace) quick(name string) {
	ns.t.Helper()
	ns.kubectl("patch", "scaledobject/"+name, "--type=merge", `--patch={"spec":{"pollingInterval":5,"cooldownPeriod":15}}`)
}

// waitFor waits until a condition of kubectl wait holds. It retries while the object does not exist.
func (ns *namespace) waitFor(object, condition string) {
	ns.t.Helper()
	ns.eventually(object+" "+condition, func() error {
		_, err := kubectl(ns.t.Context(), "-n", ns.name, "wait", object, "--for="+condition, "--timeout=60s")
		return err
	})
}

// startOrders runs a NATS server with the stream ORDERS, and returns a function that publishes n
// messages.
func (ns *namespace) startOrders() (publish func(n int)) {
	ns.t.Helper()
	js := ns.startNATS()
	if _, err := js.CreateStream(ns.t.Context(), jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders.>"}}); err != nil {
		ns.t.Fatal(err)
	}
	return func(n int) {
		ns.t.Helper()
		for i := range n {
			if _, err := js.Publish(ns.t.Context(), fmt.Sprintf("orders.%d", i), []byte("{}")); err != nil {
				ns.t.Fatal(err)
			}
		}
	}
}

// installKEDA installs KEDA, and returns the function that removes it. CRDs are deleted while the
// operator runs, because it removes the finalizers of ScaledObjects.
func installKEDA(t *testing.T) (remove func()) {
	t.Helper()
	var images []any
	for _, variable := range []string{"IMAGE_OPERATOR", "IMAGE_ADAPTER", "IMAGE_WEBHOOKS"} {
		name, digest := splitImage(t, neighbourImage(t, variable))
		images = append(images, name, digest)
	}
	dir := kustomized(t, "config", fmt.Sprintf(keda, images...))
	remove = func() {
		kubectlOK(t, "delete", "crd", "--ignore-not-found", "--timeout="+patience.String(), "scaledobjects.keda.sh", "scaledjobs.keda.sh")
		kubectlOK(t, "delete", "apiservice/v1beta1.external.metrics.k8s.io", "--ignore-not-found")
		kubectlOK(t, "delete", "--ignore-not-found", "--timeout="+patience.String(), "-k", dir)
	}
	t.Cleanup(remove)
	kubectlOK(t, "apply", "--server-side", "-k", dir)
	for _, name := range []string{"keda-operator", "keda-metrics-apiserver", "keda-admission"} {
		kubectlOK(t, "-n", "keda", "rollout", "status", "deployment/"+name, "--timeout="+patience.String())
	}
	kubectlOK(t, "wait", "--for=condition=Available", "apiservice/v1beta1.external.metrics.k8s.io", "--timeout="+patience.String())
	if t.Failed() {
		t.FailNow()
	}
	return remove
}
