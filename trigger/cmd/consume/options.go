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
	flags.StringVar(&o.deliver.URL, "url", "", "URL of the function, including the path")
	flags.StringVar(&o.deliver.Source, "source", "", "source attribute of the events: the path of the trigger")
	flags.DurationVar(&o.timeout, "timeout", 2*time.Minute, "timeout of a request; 0 disables it")
	flags.DurationVar(&o.deliver.Drain, "drain", 30*time.Second, "maximum duration of running requests after the stop signal")
	flags.IntVar(&o.tries, "tries", 10, "maximum number of attempts for an event")
	flags.IntVar(&o.deliver.Concurrency, "concurrency", 1, "maximum number of concurrent requests")
	flags.IntVar(&o.deliver.Batch, "batch", 0, "maximum number of events per request in the batched mode; 0 sends one event per request in the binary mode")
	flags.StringVar(&o.deliver.DeadLetter, "dead-letter", "", "destination of events that the function does not accept (default: none)")
	flags.BoolVar(&o.deliver.Drop, "drop", false, "drop such events if there is no dead letter; otherwise they are retried until the function accepts them")
}

// check returns an error if the options are invalid.
func (o *options) check() error {
	if u, err := url.Parse(o.deliver.URL); err != nil || u.Host == "" {
		return errors.New("--url must be the URL of a function")
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
	d.Sender = delivery.Sender{Client: delivery.NewClient(o.timeout, d.Concurrency), Backoff: delivery.DefaultBackoff, Tries: o.tries, Log: log}
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
