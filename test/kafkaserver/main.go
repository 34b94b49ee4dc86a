// Command kafkaserver is a fake Kafka broker (kfake of the client library) with a topic that
// initially contains records. The end-to-end tests run it in the cluster.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"net"
	"os"
	"os/signal"
	"strconv"
	"syscall"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

func main() {
	var s server
	flag.StringVar(&s.address, "listen", "127.0.0.1:9092", "address to listen at, by which clients reach it too")
	flag.StringVar(&s.data, "data", "", "directory of its state; none of it outlives the server when empty")
	flag.StringVar(&s.topic, "topic", "orders", "the topic")
	flag.IntVar(&s.partitions, "partitions", 1, "how many partitions it has")
	flag.IntVar(&s.records, "records", 10, "how many records it has from the start")
	flag.IntVar(&s.keys, "keys", 1, "how many keys they have; the value is the number of records of the key before it")
	crash := flag.String("crash", "", "address where a connection makes the server crash; none when empty")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if *crash != "" {
		go crashAt(*crash)
	}
	if err := s.serve(ctx); err != nil {
		log.Fatal(err)
	}
}

// crashAt exits the process at the first connection to an address, like a crash.
func crashAt(address string) {
	l, err := net.Listen("tcp", address)
	if err == nil {
		_, err = l.Accept()
	}
	log.Fatal("crashing: ", err)
}

type server struct {
	address, data, topic      string
	partitions, records, keys int
}

// serve serves until ctx ends.
func (s *server) serve(ctx context.Context) error {
	listen := func(network, _ string) (net.Listener, error) { return net.Listen(network, s.address) }
	options := []kfake.Opt{kfake.NumBrokers(1), kfake.ListenFn(listen), kfake.SeedTopics(int32(s.partitions), s.topic)}
	fresh := true
	if s.data != "" {
		entries, err := os.ReadDir(s.data)
		if err != nil {
			return err
		}
		fresh = len(entries) == 0
		options = append(options, kfake.DataDir(s.data), kfake.SyncWrites())
	}
	cluster, err := kfake.NewCluster(options...)
	if err != nil {
		return err
	}
	defer cluster.Close()
	if fresh {
		if err := s.produce(ctx, cluster.ListenAddrs()); err != nil {
			return err
		}
	}
	log.Printf("topic %s has %d records", s.topic, s.records)
	<-ctx.Done()
	return nil
}

// produce writes the records.
func (s *server) produce(ctx context.Context, addresses []string) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(addresses...), kgo.DefaultProduceTopic(s.topic))
	if err != nil {
		return err
	}
	defer client.Close()
	records := make([]*kgo.Record, s.records)
	for i := range records {
		records[i] = kgo.KeyStringRecord(fmt.Sprint("key-", i%s.keys), strconv.Itoa(i/s.keys))
	}
	return client.ProduceSync(ctx, records...).FirstErr()
}
