// Command kafkaserver speaks Kafka's protocol: kfake, the stand-in of the client library, with a
// topic that has records from the start. In the cluster of the end-to-end tests it is an image.
package main

import (
	"context"
	"flag"
	"log"
	"net"
	"os/signal"
	"strconv"
	"syscall"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

func main() {
	address := flag.String("listen", "127.0.0.1:9092", "address to listen at, by which clients reach it too")
	topic := flag.String("topic", "orders", "the topic")
	records := flag.Int("records", 10, "how many records it has")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := serve(ctx, *address, *topic, *records); err != nil {
		log.Fatal(err)
	}
}

// serve serves until ctx ends.
func serve(ctx context.Context, address, topic string, records int) error {
	listen := func(network, _ string) (net.Listener, error) { return net.Listen(network, address) }
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.ListenFn(listen), kfake.SeedTopics(1, topic))
	if err != nil {
		return err
	}
	defer cluster.Close()
	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.DefaultProduceTopic(topic))
	if err != nil {
		return err
	}
	defer client.Close()
	for i := range records {
		if err := client.ProduceSync(ctx, kgo.StringRecord(strconv.Itoa(i))).FirstErr(); err != nil {
			return err
		}
	}
	log.Printf("topic %s has %d records", topic, records)
	<-ctx.Done()
	return nil
}
