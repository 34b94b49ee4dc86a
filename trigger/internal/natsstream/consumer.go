// Package natsstream consumes messages of NATS: from a JetStream stream, at least once, or from a
// subject without a stream, at most once. It is the only package that depends on NATS.
package natsstream

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"goless.io/trigger/internal/delivery"
	"goless.io/trigger/internal/stream"
)

// requestTimeout limits each request to the servers.
const requestTimeout = 10 * time.Second

// pause is the delay between attempts to connect.
var pause = delivery.Backoff{First: 2 * time.Second, Max: 2 * time.Second}

// A Consumer consumes the messages of a subject.
type Consumer struct {
	servers, subject string
	stream, durable  string
	login            login
}

// Flags adds the flags of the consumer.
func (c *Consumer) Flags(flags *flag.FlagSet) {
	flags.StringVar(&c.servers, "servers", "", "comma-separated URLs of the servers")
	flags.StringVar(&c.subject, "subject", "", "subject of the messages, with wildcards")
	flags.StringVar(&c.stream, "stream", "", "JetStream stream of the messages; without it they are delivered at most once")
	flags.StringVar(&c.durable, "consumer", "", "name of the durable consumer, or of the queue group without a stream")
	c.login.flags(flags)
}

// Run consumes messages until ctx ends. Then it returns undelivered messages of a stream to the
// servers. Without a stream, undelivered messages are lost. It reports errors to the monitor and
// retries.
func (c *Consumer) Run(ctx context.Context, d *stream.Deliverer) error {
	for ctx.Err() == nil {
		connected, end := context.WithCancel(ctx)
		err := c.consume(connected, end, d)
		ended := connected.Err() != nil
		end()
		if err != nil && !ended {
			d.Sender.Log.Error("not connected", "error", err.Error())
			d.Monitor.Problem("", stream.Problem{Reason: stream.NotConnected, Message: err.Error()})
			delivery.Sleep(ctx, pause.Wait(1, 0, rand.Float64()))
		}
	}
	return nil
}

// consume connects and consumes messages until ctx ends or the stream or consumer cannot be used.
// It calls end, which cancels ctx, if a new connection must replace this one.
func (c *Consumer) consume(ctx context.Context, end func(), d *stream.Deliverer) error {
	nc, err := c.connect(d, end)
	if err != nil {
		return fmt.Errorf("connecting to %s: %w", c.servers, err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(requestTimeout))
	if err != nil {
		return err
	}
	if c.stream == "" {
		return c.core(ctx, d, nc, js)
	}
	return c.jetstream(ctx, d, js)
}

// connect returns a connection that reconnects automatically. It calls end if the connection
// cannot.
func (c *Consumer) connect(d *stream.Deliverer, end func()) (*nats.Conn, error) {
	options, err := c.login.options()
	if err != nil {
		return nil, err
	}
	log := d.Sender.Log
	options = append(options,
		nats.Name(d.Source),
		nats.Timeout(requestTimeout),
		nats.MaxReconnects(-1),
		nats.NoCallbacksAfterClientClose(), // a closed connection could overwrite the state of the next one
		nats.IgnoreAuthErrorAbort(),        // the Secret may have a new password before the servers do
		nats.PingInterval(10*time.Second),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			message := "the connection to " + c.servers + " is lost"
			if err != nil {
				message += ": " + err.Error()
			}
			d.Monitor.Problem("", stream.Problem{Reason: stream.NotConnected, Message: message})
		}),
		nats.ReconnectErrHandler(func(_ *nats.Conn, err error) {
			d.Monitor.Problem("", stream.Problem{Reason: stream.NotConnected, Message: fmt.Sprintf("connecting to %s again: %v", c.servers, err)})
		}),
		nats.ReconnectHandler(func(*nats.Conn) { d.Monitor.Solved("") }),
		nats.ErrorHandler(func(nc *nats.Conn, _ *nats.Subscription, err error) {
			log.Error("from the servers", "error", err.Error())
			if errors.Is(err, nats.ErrAuthorization) && c.login.hasOtherNkey(nc.Opts.Nkey) {
				end()
			}
		}),
	)
	return nats.Connect(c.servers, options...)
}

// lane returns the key of messages that are delivered in order: the subject. With batches it is one
// of Concurrency hash values of the subject, because batches of one subject would be small.
func lane(d *stream.Deliverer, subject string) string {
	if d.Batch == 0 {
		return subject
	}
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(subject)) // never fails
	return strconv.FormatUint(uint64(hash.Sum32())%uint64(d.Concurrency), 10)
}

// mostHeld returns the maximum number of messages that a process holds: those in delivery, and the
// same number of waiting ones.
func mostHeld(d *stream.Deliverer) int { return 2 * d.Concurrency * max(d.Batch, 1) }

// deliver delivers messages of one lane. See [stream.Deliverer.Deliver].
func deliver(ctx context.Context, d *stream.Deliverer, messages []*message) bool {
	all := make([]stream.Message, len(messages))
	for i, m := range messages {
		all[i] = m
	}
	return d.Deliver(ctx, all...)
}
