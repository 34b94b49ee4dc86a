package runtime

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"time"

	"go.uber.org/zap/zapcore"
)

// Config configures how a function is served. [ConfigFromEnv] reads it from these environment
// variables:
//
//	variable                default
//	SERVER_PORT             8080   port of the function, 1 to 65535
//	ADMIN_PORT              9090   port of /metrics, /healthz, /readyz and /activity; must differ
//	                               from SERVER_PORT
//	SERVER_LISTENER                number of an inherited, listening file descriptor; replaces SERVER_PORT
//	ADMIN_LISTENER                 number of an inherited, listening file descriptor; replaces ADMIN_PORT
//	FUNCTION_NAME                  label of logs and metrics
//	FUNCTION_NAMESPACE             label of logs and metrics
//	FUNCTION_REVISION              label of logs and metrics
//	GOLESS_VERSION                 label of the metric goless_build_info
//	REQUEST_TIMEOUT         60s    time limit of a request; 0: no limit
//	REQUEST_STALL_TIMEOUT   60s    time limit of a read or write without progress; 0: no limit;
//	                               default 0 if REQUEST_TIMEOUT is 0
//	REQUEST_HEADER_BYTES    65536  size limit of a request header, 1024 to 1048576 bytes
//	REQUEST_CONCURRENCY     0      limit of concurrent requests; 0: no limit
//	CONNECTION_IDLE_TIMEOUT 2m     time after which an idle connection is closed; 0: never
//	LOG_LEVEL               info   debug, info, warn or error
//	LOG_SAMPLING                   such as 100/100: per second the first 100 lines, then every 100th;
//	                               unset: all lines
//	DRAIN_DELAY             5s     time to keep serving after SIGTERM
//	DRAIN_TIMEOUT           20s    time for running requests to finish after that
//
// Durations use the syntax of [time.ParseDuration] and must not be negative. An empty variable
// counts as unset.
//
// The variables of the Go runtime, such as GOMAXPROCS, keep their meaning. If GOMEMLIMIT is
// unset, [Main] limits the memory of the Go runtime to 90 percent of the container's memory
// limit, after subtracting the size of /tmp if that is a tmpfs, and the size of the program if
// it runs from memory.
type Config struct {
	// ServerPort is the port of the function. It serves HTTP/1.1 and, without TLS, HTTP/2
	// (h2c). AdminPort is the port of the probes, the metrics and the activity. 0 is any free
	// port.
	ServerPort, AdminPort int

	// Name, Namespace and Revision are labels of every log line and of the metric
	// goless_build_info. Log lines omit the empty ones.
	Name, Namespace, Revision string

	// Version is the release of Goless that the function's image comes from. It is a label of
	// the metric goless_build_info.
	Version string

	// RequestTimeout limits the duration of a request, including streams. When it is exceeded,
	// the request's context ends and the client receives 504; if the response has already
	// begun, the connection (HTTP/2: the stream) is closed instead. 0 is no limit. A hijacked
	// connection has no limit.
	//
	// A handler that ignores its context continues to run, and continues to count towards
	// RequestConcurrency, which is the only limit on the number of such handlers. The metric
	// goless_requests_overdue counts them.
	RequestTimeout time.Duration

	// RequestConcurrency limits how many requests are served concurrently. Requests beyond this
	// limit receive 503 with Retry-After. 0 is no limit.
	RequestConcurrency int64

	// LogLevel is the minimum level of the lines in the log. Lines of the standard logger have
	// the level info, or LogLevel if it is higher. LogSampling limits how many lines are
	// written.
	LogLevel    zapcore.Level
	LogSampling Sampling

	// DrainDelay is how long requests are still served after the shutdown has begun. In its
	// second half, /readyz reports draining, so that clients stop sending requests. DrainTimeout
	// is how long running requests may then take to finish. After that, their connections are
	// closed. A hijacked connection counts as running until its handler returns, even if
	// goroutines of the handler still use it. 0 is no delay, and no time to finish.
	DrainDelay, DrainTimeout time.Duration

	// ReadHeaderTimeout is the time in which a client must send the header of a request. If
	// StallTimeout is 0, ReadHeaderTimeout also limits how long the server waits for the part
	// of a body that the handler does not read. IdleTimeout is the time after which a
	// connection without requests is closed. 0 is no limit.
	ReadHeaderTimeout, IdleTimeout time.Duration

	// StallTimeout limits how long a handler waits for a body that makes no progress, or for a
	// client that does not read the response. When it is exceeded, the read or write fails. A
	// stream that makes progress is not limited. 0 is no limit. [ConfigFromEnv] sets 0 if
	// RequestTimeout is 0, unless REQUEST_STALL_TIMEOUT is set.
	StallTimeout time.Duration

	// MaxHeaderBytes limits the size of a request header; a larger one receives 431. net/http
	// allows 4 KiB more over HTTP/1 and 320 bytes more over HTTP/2. 0 is the default of
	// net/http, 1 MiB.
	MaxHeaderBytes int

	// Listener and AdminListener, if not nil, are used instead of ServerPort and AdminPort.
	// Serve closes them.
	Listener, AdminListener net.Listener

	// Log receives the log. Default: standard error.
	Log zapcore.WriteSyncer
}

// DefaultConfig returns the configuration for an empty environment.
func DefaultConfig() Config {
	return Config{
		ServerPort:        8080,
		AdminPort:         9090,
		RequestTimeout:    60 * time.Second,
		LogLevel:          zapcore.InfoLevel,
		DrainDelay:        5 * time.Second,
		DrainTimeout:      20 * time.Second,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       120 * time.Second,
		StallTimeout:      60 * time.Second,
		MaxHeaderBytes:    64 << 10,
	}
}

// ConfigFromEnv reads the configuration from the environment. An error names the invalid
// variable and says which values are valid.
func ConfigFromEnv() (Config, error) {
	return configFrom(os.Getenv)
}

func configFrom(getenv func(string) string) (Config, error) {
	c := DefaultConfig()
	c.Name = getenv("FUNCTION_NAME")
	c.Namespace = getenv("FUNCTION_NAMESPACE")
	c.Revision = getenv("FUNCTION_REVISION")
	c.Version = getenv("GOLESS_VERSION")
	err := cmp.Or( // returns the first error
		set(&c.ServerPort, "SERVER_PORT", getenv, parsePort),
		set(&c.AdminPort, "ADMIN_PORT", getenv, parsePort),
		set(&c.Listener, "SERVER_LISTENER", getenv, inherit),
		set(&c.AdminListener, "ADMIN_LISTENER", getenv, inherit),
		set(&c.RequestTimeout, "REQUEST_TIMEOUT", getenv, parseDuration),
		set(&c.StallTimeout, "REQUEST_STALL_TIMEOUT", getenv, parseDuration),
		set(&c.RequestConcurrency, "REQUEST_CONCURRENCY", getenv, parseConcurrency),
		set(&c.MaxHeaderBytes, "REQUEST_HEADER_BYTES", getenv, parseHeaderBytes),
		set(&c.IdleTimeout, "CONNECTION_IDLE_TIMEOUT", getenv, parseDuration),
		set(&c.LogLevel, "LOG_LEVEL", getenv, parseLevel),
		set(&c.LogSampling, "LOG_SAMPLING", getenv, parseSampling),
		set(&c.DrainDelay, "DRAIN_DELAY", getenv, parseDuration),
		set(&c.DrainTimeout, "DRAIN_TIMEOUT", getenv, parseDuration),
	)
	if c.RequestTimeout == 0 && getenv("REQUEST_STALL_TIMEOUT") == "" {
		c.StallTimeout = 0
	}
	if err == nil && c.ServerPort == c.AdminPort {
		err = fmt.Errorf("SERVER_PORT and ADMIN_PORT are both %d: choose another ADMIN_PORT", c.ServerPort)
	}
	return c, err
}

// set parses the variable and stores its value in field. It does nothing if the variable is
// empty.
func set[T any](field *T, name string, getenv func(string) string, parse func(string) (T, error)) error {
	text := getenv(name)
	if text == "" {
		return nil
	}
	value, err := parse(text)
	if err != nil {
		return fmt.Errorf("%s is %q: %w", name, text, err)
	}
	*field = value
	return nil
}

func parsePort(s string) (int, error) {
	port, err := strconv.ParseUint(s, 10, 16)
	if err != nil || port == 0 {
		return 0, errors.New("want a port, 1 to 65535")
	}
	return int(port), nil
}

// inherit returns the listener of a file descriptor that this process inherited.
func inherit(s string) (net.Listener, error) {
	fd, err := strconv.ParseUint(s, 10, 16)
	if err != nil {
		return nil, errors.New("want the number of a file descriptor")
	}
	file := os.NewFile(uintptr(fd), "listener")
	defer file.Close() //nolint:errcheck // net.FileListener duplicates the file descriptor
	return net.FileListener(file)
}

func parseLevel(s string) (zapcore.Level, error) {
	level, err := zapcore.ParseLevel(s)
	if err != nil || level > zapcore.ErrorLevel {
		return 0, errors.New("want debug, info, warn or error")
	}
	return level, nil
}

func parseConcurrency(s string) (int64, error) {
	n, err := strconv.ParseUint(s, 10, 31)
	if err != nil {
		return 0, errors.New("want a number of requests, 0 for no limit")
	}
	return int64(n), nil
}

// Bounds of REQUEST_HEADER_BYTES. A request header stays in memory while the request is served.
const minHeaderBytes, maxHeaderBytes = 1 << 10, 1 << 20

func parseHeaderBytes(s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < minHeaderBytes || n > maxHeaderBytes {
		return 0, fmt.Errorf("want a number of bytes, %d to %d", minHeaderBytes, maxHeaderBytes)
	}
	return n, nil
}

func parseDuration(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 {
		return 0, errors.New("want a duration of 0 or more, such as 5s")
	}
	return d, nil
}
