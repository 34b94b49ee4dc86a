package otlp

import (
	"cmp"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// config contains the settings in the environment that the SDK does not read itself.
type config struct {
	endpoint  *url.URL
	headers   http.Header
	timeout   time.Duration // of one attempt to send a batch
	gzip      bool
	roots     *x509.CertPool // nil for those of the system
	queueSize int            // number of spans
}

// readConfig returns the settings, or nil if the environment does not enable the export.
func readConfig(getenv func(string) string) (*config, error) {
	e := &environment{getenv: getenv}
	if !e.wanted() {
		return nil, e.err
	}
	c := &config{
		endpoint:  e.endpoint(),
		headers:   e.headers(),
		timeout:   time.Duration(e.positive(e.variable("TIMEOUT"), 10_000)) * time.Millisecond,
		gzip:      e.choice(e.variable("COMPRESSION"), "none", "gzip") == "gzip",
		roots:     e.roots(),
		queueSize: e.positive("OTEL_BSP_MAX_QUEUE_SIZE", sdktrace.DefaultMaxQueueSize),
	}
	e.choice(e.variable("PROTOCOL"), "http/protobuf")
	// The SDK reads these variables itself. With a number that is not positive, it would panic
	// or loop without pause.
	for _, name := range []string{"OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "OTEL_BSP_SCHEDULE_DELAY", "OTEL_BSP_EXPORT_TIMEOUT"} {
		e.positive(name, 1)
	}
	return c, e.err
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

// failSecretly is like fail, for variables that may contain a password.
func (e *environment) failSecretly(name string, err error) {
	if e.err == nil {
		e.err = fmt.Errorf("%s is wrong: %w", name, err)
	}
}

// variable returns the name of the variable of the exporter that applies: if the variable for
// traces is set, it takes precedence over the general one.
func (e *environment) variable(suffix string) string {
	if name := "OTEL_EXPORTER_OTLP_TRACES_" + suffix; e.getenv(name) != "" {
		return name
	}
	return "OTEL_EXPORTER_OTLP_" + suffix
}

// wanted reports whether the environment enables the export.
func (e *environment) wanted() bool {
	if strings.EqualFold(e.getenv("OTEL_SDK_DISABLED"), "true") {
		return false
	}
	switch exporter := e.getenv("OTEL_TRACES_EXPORTER"); exporter {
	case "":
		return e.getenv(e.variable("ENDPOINT")) != ""
	case "otlp":
		return true
	case "none":
		return false
	default:
		e.fail("OTEL_TRACES_EXPORTER", errors.New("want otlp or none"))
		return false
	}
}

// endpoint returns the URL to send traces to. It appends the path of traces to the general
// endpoint, and does not change the endpoint for traces.
func (e *environment) endpoint() *url.URL {
	name := e.variable("ENDPOINT")
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

// headers parses key=value,key=value with percent-encoding. Its error does not contain the value of
// the variable.
func (e *environment) headers() http.Header {
	name := e.variable("HEADERS")
	headers := make(http.Header)
	for pair := range strings.SplitSeq(e.getenv(name), ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		key, value, found := strings.Cut(pair, "=")
		key, errKey := url.PathUnescape(strings.TrimSpace(key))
		value, errValue := url.PathUnescape(strings.TrimSpace(value))
		if !found || key == "" || errKey != nil || errValue != nil {
			e.failSecretly(name, errors.New("want key=value,key=value with percent-encoding where needed"))
			break
		}
		headers.Set(key, value)
	}
	return headers
}

// choice returns the value of a variable, which must be one of values. Default: the first.
func (e *environment) choice(name string, values ...string) string {
	value := cmp.Or(e.getenv(name), values[0])
	if !slices.Contains(values, value) {
		e.fail(name, fmt.Errorf("want %s, a function supports no other", strings.Join(values, " or ")))
	}
	return value
}

func (e *environment) roots() *x509.CertPool {
	name := e.variable("CERTIFICATE")
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
