package kafkastream

import (
	"bytes"
	"math/rand/v2"
	"net/http"
	"strconv"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// A dead letter that the broker accepts is stored unchanged, however large it is. If it is too
// large for the dead-letter topic, it is stored without its value, or also without its headers and
// key. No record blocks its partition.
func TestLargeDeadLetter(t *testing.T) {
	t.Parallel()
	const limit = 1 << 20
	for name, test := range map[string]struct {
		key, value, header int
		truncated          int // in bytes
	}{
		"Small":       {5, 100, 10, 0},
		"Large":       {5, 1_020_000, 10, 0},
		"TooLarge":    {5, 2 * limit, 10, 2 * limit},
		"LargeHeader": {5, 100, 2 * limit, 100 + 5 + 2*limit},
		"LargeKey":    {2 * limit, 100, 10, 100 + 5 + 10 + 2*limit},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "orders.dead"))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(cluster.Close)
			if err := cluster.CreateTopic("orders", 1, map[string]string{"max.message.bytes": strconv.Itoa(16 * limit)}); err != nil {
				t.Fatal(err)
			}
			b, f := brokers{addresses: cluster.ListenAddrs()}, newFunction(t)
			f.answer = func(string, int) int { return http.StatusBadRequest }
			record := &kgo.Record{
				Topic: "orders", Key: random(test.key), Value: random(test.value),
				Headers: []kgo.RecordHeader{{Key: "large", Value: random(test.header)}},
			}
			client := b.client(t, kgo.ProducerBatchMaxBytes(16*limit))
			if err := client.ProduceSync(t.Context(), record).FirstErr(); err != nil {
				t.Fatal(err)
			}
			start(t, &Consumer{Brokers: b.addresses, Topic: "orders", Group: "shop", SessionTimeout: session}, f, "orders.dead")
			letter := b.records(t, "orders.dead", 1)[0]
			header := headers(letter)
			said, _ := strconv.Atoi(header["Goless-Truncated"]) // 0 if absent
			if left := leftOut(record, letter); left != test.truncated || said != left || header[idHeader] == "" {
				t.Errorf("the dead letter leaves out %d bytes and says %q, want %d; its id is %q", left, header["Goless-Truncated"], test.truncated, header[idHeader])
			}
			b.awaitCommitted(t, &Consumer{Group: "shop", Topic: "orders"}, 1)
		})
	}
}

// leftOut returns the number of bytes of a record that its dead letter omits.
func leftOut(record, letter *kgo.Record) int {
	left := 0
	if !bytes.Equal(letter.Key, record.Key) {
		left += len(record.Key)
	}
	if !bytes.Equal(letter.Value, record.Value) {
		left += len(record.Value)
	}
	if headers(letter)["large"] != string(record.Headers[0].Value) {
		left += len("large") + len(record.Headers[0].Value)
	}
	return left
}

func headers(r *kgo.Record) map[string]string {
	all := map[string]string{}
	for _, h := range r.Headers {
		all[h.Key] = string(h.Value)
	}
	return all
}

// random returns incompressible bytes.
func random(n int) []byte {
	all := make([]byte, n)
	for i := range all {
		all[i] = byte(rand.Uint32())
	}
	return all
}
