package e2e

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
)

// The records of a topic wake a Function that sleeps, and each of them is delivered. Nothing is
// left of a trigger that is deleted.
func TestKafkaTrigger(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	ns.asleep(ns.ready(ns.apply(function("taking", answering("taken"), sleeping))))
	const trigger = `
apiVersion: goless.io/v1alpha1
kind: KafkaTrigger
metadata: {name: records}
spec: {functionRef: {name: taking}, topic: orders, brokers: ["%s:9092"]}
`
	ns.applyYAML(fmt.Sprintf(trigger, startKafka(ns)))
	ns.kubectl("wait", "kafkatrigger/records", "--for=condition=Ready", "--timeout="+patience.String())
	pod := ns.kubectl("get", "pods", "--selector=goless.io/trigger=records", "--output=jsonpath={.items[0].status.podIP}")
	ns.eventually("all records are delivered", func() error {
		r, err := caller.call(t.Context(), http.MethodGet, "http://"+pod+":9090/metrics", "")
		if err == nil && !strings.Contains(r.Body, `goless_trigger_events_total{outcome="delivered"} 10`) {
			err = fmt.Errorf("the pod of the trigger says %d %s %s", r.Status, r.Error, r.Body)
		}
		return err
	})
	ns.kubectl("delete", "kafkatrigger/records")
	ns.kubectl("wait", "deployment/records", "--for=delete", "--timeout="+patience.String())
}

// startKafka starts a broker that has records, and returns its address.
func startKafka(ns *namespace) string {
	ns.t.Helper()
	image := os.Getenv("KAFKA_IMAGE")
	if image == "" {
		ns.t.Fatal("KAFKA_IMAGE is not set: run make e2e, which makes that image")
	}
	text, err := os.ReadFile("testdata/kafka.yaml")
	if err != nil {
		ns.t.Fatal(err)
	}
	ns.applyYAML(strings.Replace(string(text), "KAFKA_IMAGE", image, 1))
	ns.kubectl("wait", "pod/broker", "--for=condition=Ready", "--timeout="+patience.String())
	return ns.kubectl("get", "pod/broker", "--output=jsonpath={.status.podIP}")
}
