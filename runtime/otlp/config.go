package otlp

import (
	"cmp"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"goless.io/runtime/internal/trace"
)

// config is what the environment asks for.
type config struct {
	endpoint    *url.URL
	headers     http.Header
	timeout     time.Duration // of one attempt
	json, gzip  bool
	roots       *x509.CertPool // nil for the system's
	resource    []slog.Attr
	samplerName string
	sample      sampler

	queue, batch  int
	delay         time.Duration // longest wait for a batch to fill
	exportTimeout time.Duration // of all attempts with one batch
}

// configFrom returns nil if no export is asked for.
func configFrom(getenv func(string) string, r trace.Resource) (*config, error) {
	e := &environment{getenv: getenv}
	if !e.wanted() {
		return nil, e.err
	}
	c := &config{
		endpoint:      e.endpoint(),
		headers:       e.headers(),
		timeout:       e.milliseconds(e.of("TIMEOUT"), 10*time.Second),
		json:          e.choice(e.of("PROTOCOL"), "http/protobuf", "http/json") == 1,
		gzip:          e.choice(e.of("COMPRESSION"), "none", "gzip") == 1,
		roots:         e.roots(),
		resource:      e.resource(r),
		samplerName:   cmp.Or(getenv("OTEL_TRACES_SAMPLER"), "parentbased_always_on"),
		queue:         e.positive("OTEL_BSP_MAX_QUEUE_SIZE", 2048),
		batch:         e.positive("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", 512),
		delay:         e.milliseconds("OTEL_BSP_SCHEDULE_DELAY", 5*time.Second),
		exportTimeout: e.milliseconds("OTEL_BSP_EXPORT_TIMEOUT", 30*time.Second),
	}
	c.batch = min(c.batch, c.queue)
	var err error
	c.sample, err = newSampler(c.samplerName, getenv("OTEL_TRACES_SAMPLER_ARG"))
	return c, cmp.Or(e.err, err)
}

// environment reads variables and keeps the first error.
type environment struct {
	getenv func(string) string
	err    error
}

func (e *environment) fail(name string, err error) {
	if e.err == nil {
		e.err = fmt.Errorf("%s is %q: %w", name, e.getenv(name), err)
	}
}

// failSecretly is for variables that may hold a password.
func (e *environment) failSecretly(name string, err error) {
	if e.err == nil {
		e.err = fmt.Errorf("%s is wrong: %w", name, err)
	}
}

// of returns which of the two variables of the exporter holds: the one for
// traces alone wins.
func (e *environment) of(suffix string) string {
	if name := "OTEL_EXPORTER_OTLP_TRACES_" + suffix; e.getenv(name) != "" {
		return name
	}
	return "OTEL_EXPORTER_OTLP_" + suffix
}

func (e *environment) wanted() bool {
	if strings.EqualFold(e.getenv("OTEL_SDK_DISABLED"), "true") {
		return false
	}
	switch exporter := e.getenv("OTEL_TRACES_EXPORTER"); exporter {
	case "":
		return e.getenv(e.of("ENDPOINT")) != ""
	case "otlp":
		return true
	case "none":
		return false
	default:
		e.fail("OTEL_TRACES_EXPORTER", errors.New("want otlp or none"))
		return false
	}
}

// endpoint appends the path of traces to the endpoint of everything, and takes
// the endpoint of traces as it is.
func (e *environment) endpoint() *url.URL {
	name := e.of("ENDPOINT")
	u, err := url.Parse(cmp.Or(e.getenv(name), "http://localhost:4318"))
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		e.failSecretly(name, errors.New("want a URL, as http://collector:4318"))
		return nil
	}
	if name == "OTEL_EXPORTER_OTLP_ENDPOINT" {
		return u.JoinPath("v1", "traces")
	}
	if u.Path == "" {
		u.Path = "/"
	}
	return u
}

func (e *environment) headers() http.Header {
	name := e.of("HEADERS")
	pairs, err := parsePairs(e.getenv(name))
	if err != nil {
		e.failSecretly(name, err)
	}
	headers := make(http.Header)
	for _, pair := range pairs {
		headers.Set(pair.Key, pair.Value.String())
	}
	return headers
}

// choice returns which of the two values is asked for, the first by default.
func (e *environment) choice(name, first, second string) int {
	switch e.getenv(name) {
	case "", first:
		return 0
	case second:
		return 1
	default:
		e.fail(name, fmt.Errorf("want %s or %s, a function supports no other", first, second))
		return 0
	}
}

func (e *environment) roots() *x509.CertPool {
	name := e.of("CERTIFICATE")
	file := e.getenv(name)
	if file == "" {
		return nil
	}
	pem, err := os.ReadFile(file)
	if err != nil {
		e.fail(name, err)
		return nil
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		e.fail(name, errors.New("want a file with certificates in PEM"))
	}
	return pool
}

func (e *environment) milliseconds(name string, byDefault time.Duration) time.Duration {
	return time.Duration(e.positive(name, int(byDefault.Milliseconds()))) * time.Millisecond
}

func (e *environment) positive(name string, byDefault int) int {
	text := e.getenv(name)
	if text == "" {
		return byDefault
	}
	n, err := strconv.Atoi(text)
	if err != nil || n <= 0 || n > 1<<20 {
		e.fail(name, fmt.Errorf("want a number from 1 to %d", 1<<20))
		return byDefault
	}
	return n
}

// parsePairs reads key=value,key=value, percent-encoded. Its errors do not
// quote the text.
func parsePairs(text string) ([]slog.Attr, error) {
	var pairs []slog.Attr
	for pair := range strings.SplitSeq(text, ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		key, value, found := strings.Cut(pair, "=")
		key, errKey := url.PathUnescape(strings.TrimSpace(key))
		value, errValue := url.PathUnescape(strings.TrimSpace(value))
		if !found || key == "" || errKey != nil || errValue != nil {
			return nil, errors.New("want key=value,key=value with percent-encoding where needed")
		}
		pairs = append(pairs, slog.String(key, value))
	}
	return pairs, nil
}
