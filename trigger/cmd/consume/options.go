package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"time"

	"goless.io/trigger/internal/delivery"
	"goless.io/trigger/internal/send"
	"goless.io/trigger/internal/stream"
)

// options are the flags that all brokers have in common.
type options struct {
	admin   string
	timeout time.Duration
	tries   int
	deliver stream.Deliverer
}

func (o *options) flags(flags *flag.FlagSet) {
	flags.StringVar(&o.admin, "admin", ":9090", "address of /healthz, /readyz, /status and /metrics")
	flags.StringVar(&o.deliver.URL, "url", "", "where the function answers, with the path")
	flags.StringVar(&o.deliver.Source, "source", "", "the source of the events: the path of the trigger")
	flags.DurationVar(&o.timeout, "timeout", 2*time.Minute, "the longest time of one request; 0 for any")
	flags.DurationVar(&o.deliver.Drain, "drain", 30*time.Second, "how long requests that are under way may go on at the end")
	flags.IntVar(&o.tries, "tries", 10, "how often an event is tried")
	flags.IntVar(&o.deliver.Concurrency, "concurrency", 1, "how many requests there are at the same time")
	flags.IntVar(&o.deliver.Batch, "batch", 0, "how many events one request has at most, in the batched mode; 0 for one event in the binary mode")
	flags.StringVar(&o.deliver.DeadLetter, "dead-letter", "", "where events go that the function does not take; nowhere when empty")
	flags.BoolVar(&o.deliver.Drop, "drop", false, "give up such events where there is no dead letter; otherwise they are tried until the function takes them")
}

// check returns an error if the options are invalid.
func (o *options) check() error {
	if u, err := url.Parse(o.deliver.URL); err != nil || u.Host == "" {
		return errors.New("--url must be that of a function")
	}
	if o.deliver.Source == "" || o.tries < 1 || o.deliver.Concurrency < 1 || o.deliver.Batch < 0 {
		return errors.New("--source must not be empty, --tries and --concurrency must be at least 1, and --batch must not be negative")
	}
	return nil
}

// run delivers the events of the broker until ctx ends.
func (o *options) run(ctx context.Context, from broker, log *slog.Logger) error {
	d := &o.deliver
	d.Monitor = stream.NewMonitor(version, commit)
	d.Sender = send.Sender{Client: send.NewClient(o.timeout, d.Concurrency), Backoff: delivery.DefaultBackoff, Tries: o.tries, Log: log}
	listener, err := net.Listen("tcp", o.admin)
	if err != nil {
		return fmt.Errorf("listening at --admin: %w", err)
	}
	admin := &http.Server{Handler: d.Monitor.Handler(), ReadHeaderTimeout: 10 * time.Second, MaxHeaderBytes: 16 << 10}
	defer admin.Close() //nolint:errcheck // the process ends
	go func() {
		if err := admin.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			log.Error("serving at --admin", "error", err.Error())
		}
	}()
	log.Info("started", "admin", listener.Addr().String(), "url", d.URL)
	return from.Run(ctx, d)
}
