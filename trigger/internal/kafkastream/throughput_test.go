package kafkastream

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"goless.io/trigger/internal/delivery"
	"goless.io/trigger/internal/stream"
)

// BenchmarkThroughput reports the number of events per second that a function receives. It compares
// this with a plain loop of the client library that posts the same events to the same function,
// without retries and with a commit every five seconds.
func BenchmarkThroughput(b *testing.B) {
	for _, inFlight := range []int{1, 64} {
		b.Run(fmt.Sprintf("InFlight=%d", inFlight), func(b *testing.B) {
			const records = 20_000
			brokers := fill(b, inFlight, records)
			var bare, ours time.Duration
			for b.Loop() {
				bare += measure(b, records, func(ctx context.Context, url string) error {
					return bareLoop(ctx, brokers, url, delivery.NewClient(time.Minute, inFlight))
				})
				ours += measure(b, records, func(ctx context.Context, url string) error {
					d := newDeliverer(url, slog.New(slog.DiscardHandler))
					d.Concurrency, d.Sender.Client = inFlight, delivery.NewClient(time.Minute, inFlight)
					return (&Consumer{Brokers: brokers, Topic: "orders", Group: groupName(), SessionTimeout: session}).Run(ctx, d)
				})
			}
			b.ReportMetric(records*float64(b.N)/bare.Seconds(), "bare-events/s")
			b.ReportMetric(records*float64(b.N)/ours.Seconds(), "events/s")
			b.ReportMetric(100*bare.Seconds()/ours.Seconds(), "%-of-bare")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// fill returns the addresses of a broker in this process whose topic orders contains the given
// number of records in each partition.
func fill(b *testing.B, partitions, records int) []string {
	b.Helper()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(int32(partitions), "orders"))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(cluster.Close)
	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.DisableClientMetrics())
	if err != nil {
		b.Fatal(err)
	}
	defer client.Close()
	all := make([]*kgo.Record, records)
	for i := range all {
		all[i] = &kgo.Record{Topic: "orders", Partition: int32(i % partitions), Key: fmt.Append(nil, "key-", i), Value: bytes.Repeat([]byte{'x'}, 256)}
	}
	if err := client.ProduceSync(b.Context(), all...).FirstErr(); err != nil {
		b.Fatal(err)
	}
	return cluster.ListenAddrs()
}

// measure runs a consumer until its function has received a number of events, and returns how long
// that took.
func measure(b *testing.B, events int64, consume func(ctx context.Context, url string) error) time.Duration {
	b.Helper()
	var taken atomic.Int64
	var first, last time.Time
	done := make(chan struct{})
	function := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		switch taken.Add(1) {
		case 1:
			first = time.Now()
		case events:
			last = time.Now()
			close(done)
		}
	}))
	defer function.Close()
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan error, 1)
	go func() { ended <- consume(ctx, function.URL) }()
	<-done
	cancel()
	if err := <-ended; err != nil {
		b.Fatal(err)
	}
	return last.Sub(first)
}

// bareLoop posts the polled records, those of a partition one after the other.
func bareLoop(ctx context.Context, brokers []string, url string, function *http.Client) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.ConsumeTopics("orders"), kgo.ConsumerGroup(groupName()),
		kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()), kgo.DisableClientMetrics())
	if err != nil {
		return err
	}
	defer client.Close()
	m := &member{deliverer: &stream.Deliverer{Source: "/test"}}
	for ctx.Err() == nil {
		var polled sync.WaitGroup
		client.PollFetches(ctx).EachPartition(func(p kgo.FetchTopicPartition) {
			polled.Go(func() {
				for _, r := range p.Records {
					_ = post(ctx, function, url, (&message{member: m, record: r}).Event()) // without retries
				}
			})
		})
		polled.Wait()
	}
	return nil
}

func post(ctx context.Context, function *http.Client, url string, e delivery.Event) error {
	r, err := e.Request(ctx, http.MethodPost, url)
	if err != nil {
		return err
	}
	answer, err := function.Do(r)
	if err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, answer.Body)
	return answer.Body.Close()
}

// groupName returns a unique name.
func groupName() string { return fmt.Sprintf("group-%d", time.Now().UnixNano()) }
