package consumer_test

import (
	"flag"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"goless.io/trigger/api/v1alpha1"
	"goless.io/trigger/internal/consumer"
	"goless.io/trigger/internal/functionref"
	"goless.io/trigger/internal/kafkastream"
	"goless.io/trigger/internal/natsstream"
)

var update = flag.Bool("update", false, "update the golden files")

func records() *v1alpha1.KafkaTrigger {
	return &v1alpha1.KafkaTrigger{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "records", UID: "8"},
		Spec: v1alpha1.KafkaTriggerSpec{
			StreamSpec: v1alpha1.StreamSpec{
				FunctionRef: v1alpha1.FunctionReference{Name: "checkout"}, Path: "/", MaxAttempts: 5, OnExhausted: v1alpha1.Block, Concurrency: 8, Batch: &v1alpha1.StreamBatch{Size: 100},
			},
			Brokers: []v1alpha1.KafkaBroker{"a.example.com:9093", "b.example.com:9093"}, Topic: "orders", DeadLetter: "orders.dead",
			Authentication: &v1alpha1.KafkaAuthentication{Mechanism: v1alpha1.KafkaScramSHA512, User: "shop", Password: v1alpha1.SecretKey{Name: "kafka", Key: "secret"}},
			TLS:            &v1alpha1.StreamTLS{CA: &v1alpha1.SecretKey{Name: "kafka", Key: "root.pem"}, SecretName: "certificate"},
		},
	}
}

func orders() *v1alpha1.NATSTrigger {
	return &v1alpha1.NATSTrigger{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "orders", UID: "7"},
		Spec: v1alpha1.NATSTriggerSpec{
			StreamSpec: v1alpha1.StreamSpec{
				FunctionRef: v1alpha1.FunctionReference{Name: "checkout"}, Path: "/in?for=$(HOME)", MaxAttempts: 5, OnExhausted: v1alpha1.Drop, Concurrency: 8,
			},
			Servers: []v1alpha1.NATSServer{"nats://a.example.com:4222", "nats://b.example.com:4222"}, Stream: "ORDERS", Subject: "orders.>", DeadLetter: "dead.orders",
			Authentication: &v1alpha1.NATSAuthentication{User: "shop", Password: &v1alpha1.SecretKey{Name: "nats", Key: "secret"}},
			TLS:            &v1alpha1.StreamTLS{CA: &v1alpha1.SecretKey{Name: "nats", Key: "root.pem"}, SecretName: "certificate"},
		},
	}
}

// The Deployment contains each field of a trigger. The kubelet does not expand variables of the
// user.
func TestDeployment(t *testing.T) {
	t.Run("Kafka", func(t *testing.T) {
		program, err := consumer.Kafka(records())
		if err != nil {
			t.Fatal(err)
		}
		compare(t, records(), program, &kafkastream.Consumer{})
	})
	t.Run("NATS", func(t *testing.T) {
		program, err := consumer.NATS(orders())
		if err != nil {
			t.Fatal(err)
		}
		compare(t, orders(), program, &natsstream.Consumer{})
	})
}

// compare compares the Deployment of a trigger with its golden file. cmd/consume must accept the
// arguments.
func compare(t *testing.T, trigger v1alpha1.StreamTrigger, program consumer.Program, broker interface{ Flags(*flag.FlagSet) }) {
	t.Helper()
	flags := flag.NewFlagSet(program.Broker, flag.ContinueOnError)
	broker.Flags(flags)
	if err := flags.Parse(program.Args); err != nil || flags.NArg() > 0 {
		t.Errorf("parsing %q: %v", program.Args, err)
	}
	got, err := yaml.Marshal(consumer.Deployment(trigger, program, functionref.Target{Timeout: 130 * time.Second}, "http://checkout.shop.svc:8080", "registry.example/consume@sha256:0123"))
	if err != nil {
		t.Fatal(err)
	}
	golden := "testdata/" + trigger.GetName() + ".yaml"
	if *update {
		if err := os.WriteFile(golden, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("the Deployment (-want +got):\n%s", diff)
	}
}

// The dead-letter subject must not match the subject of the trigger.
func TestDeadLetter(t *testing.T) {
	for _, test := range []struct {
		subject, deadLetter string
		back                bool
	}{
		{"orders", "orders", true},
		{"orders.>", "orders.dead", true},
		{"orders.>", "orders", false},
		{"orders.*", "orders.dead", true},
		{"orders.*", "orders.dead.eu", false},
		{"*.eu", "dead.eu", true},
		{">", "dead", true},
		{"orders.eu", "orders", false},
		{"orders", "dead", false},
	} {
		trigger := orders()
		trigger.Spec.Subject, trigger.Spec.DeadLetter = test.subject, test.deadLetter
		if _, err := consumer.NATS(trigger); (err != nil) != test.back {
			t.Errorf("subject %s and dead letter %s: got %v", test.subject, test.deadLetter, err)
		}
	}
}

// No two triggers have the same default name of a consumer.
func TestNATSConsumerNames(t *testing.T) {
	seen := map[string]string{}
	for _, key := range [][2]string{{"shop", "eu-orders"}, {"shop-eu", "orders"}, {"shop", "eu"}, {"shop-eu-orders", "orders"}} {
		trigger := &v1alpha1.NATSTrigger{ObjectMeta: metav1.ObjectMeta{Namespace: key[0], Name: key[1]}}
		name := trigger.ConsumerName()
		if other, taken := seen[name]; taken {
			t.Errorf("%s/%s and %s have the consumer %s", key[0], key[1], other, name)
		}
		seen[name] = key[0] + "/" + key[1]
	}
}
