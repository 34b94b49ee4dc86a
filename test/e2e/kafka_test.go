package e2e

import (
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
)

// records calls a Function with the records of a topic.
const records = `
apiVersion: goless.io/v1alpha1
kind: KafkaTrigger
metadata: {name: records}
spec: {functionRef: {name: taking}, topic: orders, brokers: ["%s:9092"]}
`

// The records of a topic wake a sleeping Function, and each of them is delivered. A deleted
// trigger leaves no objects.
func TestKafkaTrigger(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	ns.asleep(ns.ready(ns.apply(function("taking", answering("taken"), sleeping))))
	ns.applyYAML(fmt.Sprintf(records, startKafka(ns, 10)))
	ns.kubectl("wait", "kafkatrigger/records", "--for=condition=Ready", "--timeout="+patience.String())
	pod := ns.kafkaConsumer()
	ns.eventually("all records are delivered, within the memory limit of the container", func() error {
		r, err := caller.call(t.Context(), http.MethodGet, "http://"+pod.Status.PodIP+":9090/metrics", "")
		if err == nil && (!strings.Contains(r.Body, `goless_trigger_events_total{outcome="delivered"} 10`) || !strings.Contains(r.Body, memoryLimit(pod))) {
			err = fmt.Errorf("the pod of the trigger says %d %s %s", r.Status, r.Error, r.Body)
		}
		return err
	})
	ns.kubectl("delete", "kafkatrigger/records")
	ns.kubectl("wait", "deployment/records-trigger", "--for=delete", "--timeout="+patience.String())
}

// recording stores the lines that it receives, and returns them or their number.
const recording = `package handlers

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
)

var (
	mu    sync.Mutex
	lines []string
)

func Handler(w http.ResponseWriter, r *http.Request) {
	line, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	mu.Lock()
	defer mu.Unlock()
	switch {
	case r.Method == http.MethodPost:
		lines = append(lines, string(line))
	case r.URL.Path == "/count":
		fmt.Fprint(w, len(lines))
	default:
		io.WriteString(w, strings.Join(lines, "\n"))
	}
}
`

// passingOn waits, and then sends the ID, the key and the data of an event to a URL.
const passingOn = `package handlers

import (
	"fmt"
	"net/http"
	"strings"
	"time"
)

func Handler(w http.ResponseWriter, r *http.Request) {
	var data int
	if _, err := fmt.Fscan(r.Body, &data); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	time.Sleep(20 * time.Millisecond)
	line := fmt.Sprint(r.Header.Get("Ce-Id"), " ", r.Header.Get("Ce-Partitionkey"), " ", data)
	answer, err := http.Post(%q, "text/plain", strings.NewReader(line))
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	defer answer.Body.Close()
	w.WriteHeader(answer.StatusCode)
}
`

// No record is lost, and the order of each key is kept, while pods of the trigger and its
// Function and the broker are killed; with FULL=1 more often, and also pods of the build
// service. Records are repeated only if they were in flight, or not committed, when a pod was
// killed. Pods have two seconds to exit. Consumers without that time are tested in kafkastream.
func TestKafkaKills(t *testing.T) {
	const partitions, uncommitted = 4, 64
	n, rounds := 1000, 1
	full := os.Getenv("FULL") != ""
	if full {
		n, rounds = 10_000, 4
	} else {
		t.Parallel()
	}
	ns := newNamespace(t)
	recorder := ns.ready(ns.apply(shared("recorder", recording)))
	taking := ns.ready(ns.apply(shared("taking", fmt.Sprintf(passingOn, url(recorder)), replicas(2))))
	broker := startKafka(ns, n)
	ns.applyYAML(fmt.Sprintf(records, broker))
	kills := []func(){
		func() { ns.kill(ns.pod(taking)) },
		func() { ns.kill(ns.kafkaConsumer()) },
		func() { ns.crash(broker) },
	}
	if full {
		kills = append(kills, ns.killBuildPod)
	}
	all := rounds * len(kills)
	for i := range all {
		ns.recorded(recorder, (i+1)*n/(all+2))
		kills[i%len(kills)]()
	}
	ns.recorded(recorder, n)
	ns.eventually("all records are committed", func() error {
		metrics, err := caller.call(t.Context(), http.MethodGet, "http://"+ns.kafkaConsumer().Status.PodIP+":9090/metrics", "")
		if err == nil && !strings.Contains(metrics.Body, "\ngoless_trigger_lag 0\n") {
			err = fmt.Errorf("the pod of the trigger says %d %s %s", metrics.Status, metrics.Error, metrics.Body)
		}
		return err
	})
	twice := checkOrder(t, ns.call(http.MethodGet, url(recorder), "").Body, n)
	t.Logf("%d of %d records were delivered twice with %d kills", twice, n, all)
	if most := rounds * (partitions + 2*partitions*(uncommitted+1)); twice > most {
		t.Errorf("%d records were delivered twice, want at most %d", twice, most)
	}
}

// checkOrder fails the test unless n records were delivered, in order for each key. It returns
// the number of repeated records.
func checkOrder(t *testing.T, lines string, n int) (twice int) {
	t.Helper()
	seen, next := map[string]bool{}, map[string]int{}
	for line := range strings.Lines(lines) {
		var id, key string
		var data int
		if _, err := fmt.Sscan(line, &id, &key, &data); err != nil {
			t.Fatalf("invalid record %q: %v", line, err)
		}
		if seen[id] {
			twice++
			continue
		}
		seen[id] = true
		if data != next[key] {
			t.Errorf("records of key %s: %d was delivered before %d", key, data, next[key])
		}
		next[key] = data + 1
	}
	if len(seen) != n {
		t.Errorf("%d of %d records were delivered", len(seen), n)
	}
	return twice
}

// recorded waits until n lines are stored.
func (ns *namespace) recorded(recorder *v1beta1.Function, n int) {
	ns.t.Helper()
	ns.eventually(fmt.Sprintf("%d records are stored", n), func() error {
		answer, err := caller.call(ns.t.Context(), http.MethodGet, url(recorder)+"/count", "")
		if err != nil {
			return err
		}
		if count, err := strconv.Atoi(answer.Body); err != nil || count < n {
			return fmt.Errorf("it says %d %q %s", answer.Status, answer.Body, answer.Error)
		}
		return nil
	})
}

// kafkaConsumer returns the pod of the trigger that has an address.
func (ns *namespace) kafkaConsumer() (pod *corev1.Pod) {
	ns.t.Helper()
	ns.until("the trigger has a pod", func() bool {
		var pods corev1.PodList
		if err := ns.client.List(ns.t.Context(), &pods, client.InNamespace(ns.name), client.MatchingLabels{"goless.io/trigger": "records"}); err != nil {
			ns.t.Fatal(err)
		}
		for _, p := range pods.Items {
			if p.DeletionTimestamp == nil && p.Status.PodIP != "" {
				pod = &p
			}
		}
		return pod != nil
	})
	return pod
}

// kill deletes a pod with a grace period of two seconds.
func (ns *namespace) kill(pod *corev1.Pod) {
	ns.t.Helper()
	if err := ns.client.Delete(ns.t.Context(), pod, client.GracePeriodSeconds(0)); err != nil {
		ns.t.Fatal(err)
	}
}

// killBuildPod deletes a pod of the build service.
func (ns *namespace) killBuildPod() {
	ns.t.Helper()
	pods, err := buildPods(ns.t.Context())
	if err != nil || len(pods) == 0 {
		ns.t.Fatalf("unexpected pods of the build service: %v (%v)", pods, err)
	}
	ns.kill(&pods[0])
}

// crash makes the broker exit, and waits until it has restarted.
func (ns *namespace) crash(broker string) {
	ns.t.Helper()
	restarts := func() int32 {
		return get(ns, "broker", &corev1.Pod{}).Status.ContainerStatuses[0].RestartCount
	}
	before := restarts()
	if r, err := caller.call(ns.t.Context(), http.MethodGet, "http://"+broker+":9093", ""); err != nil || r.Error == "" {
		ns.t.Fatalf("the broker did not crash, and responded with %d %s (%v)", r.Status, r.Body, err)
	}
	ns.until("the broker has restarted", func() bool { return restarts() > before })
}

// startKafka starts a broker with n records, and returns its address.
func startKafka(ns *namespace, n int) string {
	ns.t.Helper()
	image := os.Getenv("KAFKA_IMAGE")
	if image == "" {
		ns.t.Fatal("KAFKA_IMAGE is not set; run make e2e, which builds that image")
	}
	text, err := os.ReadFile("testdata/kafka.yaml")
	if err != nil {
		ns.t.Fatal(err)
	}
	ns.applyYAML(strings.NewReplacer("KAFKA_IMAGE", image, "RECORDS", strconv.Itoa(n)).Replace(string(text)))
	ns.kubectl("wait", "pod/broker", "--for=condition=Ready", "--timeout="+patience.String())
	return ns.kubectl("get", "pod/broker", "--output=jsonpath={.status.podIP}")
}
