package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"goless.io/trigger/internal/delivery"
)

// once contains the flags of a call.
type once struct {
	url, method, body string
	source, job       string
	headers           headerFlag
	timeout, deadline time.Duration
}

func (o *once) flags(flags *flag.FlagSet) {
	o.headers = headerFlag{}
	flags.StringVar(&o.url, "url", "", "URL of the function, including the path")
	flags.StringVar(&o.method, "method", http.MethodPost, "method of the request")
	flags.StringVar(&o.body, "body", "", "body of the request")
	flags.Var(o.headers, "header", "header of the request, as NAME: VALUE; may be repeated")
	flags.StringVar(&o.source, "source", "", "source attribute of the event: the path of the trigger")
	flags.StringVar(&o.job, "job", "", "name of the Job, which is the id of the event")
	flags.DurationVar(&o.timeout, "timeout", 2*time.Minute, "timeout of a request; 0 disables it")
	flags.DurationVar(&o.deadline, "deadline", 10*time.Minute, "time after which no attempt begins; a running attempt can take its timeout")
}

// run makes the call. It retries the call until the deadline.
func (o *once) run(ctx context.Context, log *slog.Logger) error {
	if u, err := url.Parse(o.url); err != nil || u.Host == "" {
		return fmt.Errorf("%w: --url must be the URL of a function", errUsage)
	}
	if o.source == "" || o.job == "" {
		return fmt.Errorf("%w: --source and --job must not be empty", errUsage)
	}
	beginning, cancel := context.WithTimeout(ctx, o.deadline)
	defer cancel()
	e := delivery.Event{ID: o.job, Source: o.source, Type: "io.goless.cron.tick", Time: scheduled(o.job, time.Now()), Data: []byte(o.body)}
	sender := delivery.Sender{Client: delivery.NewClient(o.timeout, 1), Backoff: delivery.DefaultBackoff, Log: log}
	err := sender.Deliver(beginning, func(context.Context) (*http.Request, error) {
		r, err := e.Request(ctx, o.method, o.url)
		if err == nil {
			maps.Copy(r.Header, http.Header(o.headers))
		}
		return r, err
	})
	if err != nil {
		return fmt.Errorf("%s %s: %w", o.method, o.url, err)
	}
	log.Info("delivered", "id", o.job, "url", o.url)
	return nil
}

// scheduled returns the time for which a CronJob created a Job: the name of the Job ends with the
// minutes since 1970. For a Job that was created manually, it returns now.
func scheduled(job string, now time.Time) time.Time {
	minutes, err := strconv.ParseInt(job[strings.LastIndex(job, "-")+1:], 10, 32)
	at := time.Unix(minutes*60, 0)
	if err != nil || at.After(now) || now.Sub(at) > 365*24*time.Hour {
		return now
	}
	return at
}

// headerFlag is a flag that collects headers.
type headerFlag http.Header

func (h headerFlag) String() string { return "" }

func (h headerFlag) Set(line string) error {
	name, value, ok := strings.Cut(line, ":")
	if !ok {
		return fmt.Errorf("%q must have the form NAME: VALUE", line)
	}
	http.Header(h).Add(name, strings.TrimSpace(value))
	return nil
}
