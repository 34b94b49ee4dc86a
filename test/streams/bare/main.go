// Command bare posts the messages of a stream to a URL using only the client library: without
// order, retries or metrics. The throughput of consume is compared with it.
package main

import (
	"bytes"
	"context"
	"flag"
	"io"
	"log"
	"net/http"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

func main() {
	servers := flag.String("servers", "", "URL of the server")
	stream := flag.String("stream", "", "the stream")
	durable := flag.String("consumer", "", "its consumer")
	url := flag.String("url", "", "where the messages are posted to")
	concurrency := flag.Int("concurrency", 1, "how many at the same time")
	flag.Parse()
	nc, err := nats.Connect(*servers)
	if err != nil {
		log.Fatal(err)
	}
	js, err := jetstream.New(nc)
	if err != nil {
		log.Fatal(err)
	}
	consumer, err := js.Consumer(context.Background(), *stream, *durable)
	if err != nil {
		log.Fatal(err)
	}
	messages, err := consumer.Messages()
	if err != nil {
		log.Fatal(err)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = *concurrency
	client := &http.Client{Transport: transport}
	slots := make(chan struct{}, *concurrency)
	for {
		msg, err := messages.Next()
		if err != nil {
			log.Fatal(err)
		}
		slots <- struct{}{}
		go func() {
			defer func() { <-slots }()
			if err := post(client, *url, msg); err != nil {
				log.Fatal(err)
			}
		}()
	}
}

func post(client *http.Client, url string, msg jetstream.Msg) error {
	answer, err := client.Post(url, "application/json", bytes.NewReader(msg.Data()))
	if err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, answer.Body) // the status has arrived
	_ = answer.Body.Close()                 // it was only read
	return msg.Ack()
}
