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

// Config says how a function is served. [ConfigFromEnv] fills it from the
// environment, which is the contract with whoever starts the program:
//
//	SERVER_PORT             8080   port of the function
//	ADMIN_PORT              9090   port of /metrics, /healthz, /readyz and /activity
//	SERVER_LISTENER                file descriptor that listens in place of SERVER_PORT
//	ADMIN_LISTENER                 file descriptor that listens in place of ADMIN_PORT
//	FUNCTION_NAME                  label of logs and metrics
//	FUNCTION_NAMESPACE             label of logs and metrics
//	FUNCTION_REVISION              label of logs and metrics
//	GOLESS_VERSION                 label of the metric goless_build_info
//	REQUEST_TIMEOUT         60s    longest time of one request, 0 for none
//	REQUEST_STALL_TIMEOUT   60s    longest wait for a client that neither sends nor takes anything, 0 for none;
//	                               the default is 0 where REQUEST_TIMEOUT is 0
//	REQUEST_HEADER_BYTES    65536  longest header of a request, 1024 to 1048576 bytes
//	REQUEST_CONCURRENCY     0      most requests at a time, 0 for no limit
//	CONNECTION_IDLE_TIMEOUT 2m     time after which a connection without requests is closed, 0 for none
//	LOG_LEVEL               info   debug, info, warn or error
//	LOG_SAMPLING                   such as 100/100: of the lines of a second the first 100, then each 100th
//	DRAIN_DELAY             5s     time to keep serving after SIGTERM
//	DRAIN_TIMEOUT           20s    time for running requests to end after that
//
// An empty variable counts as unset. The variables of the Go runtime keep their
// meaning. Without GOMEMLIMIT [Main] takes nine tenths of the memory of the
// container, less the size of /tmp if that is in memory.
type Config struct {
	// ServerPort is where the function is served, HTTP/1.1 and HTTP/2 without
	// TLS (h2c) alike. AdminPort is where the program itself is observed.
	ServerPort, AdminPort int

	// Name, Namespace and Revision label every line of the log and the metric
	// goless_build_info. Empty ones are left out of the log.
	Name, Namespace, Revision string

	// Version is the release of Goless whose image the function runs in, for goless_build_info.
	Version string

	// RequestTimeout is the longest time of one request, streams included;
	// after it the request's context ends and the client gets the status 504,
	// or a connection that is cut if the answer had begun. 0 is none. A handler
	// that took over its connection has no limit. One that ignores the end of its
	// context goes on, and nothing but RequestConcurrency, of which each keeps a place,
	// bounds how many do. The metric goless_requests_overdue counts them.
	RequestTimeout time.Duration

	// RequestConcurrency is how many requests are served at a time; others get
	// the status 503 with Retry-After. 0 is no limit.
	RequestConcurrency int64

	// LogLevel is the lowest level that is logged; what the standard logger
	// prints has the level info or, if that is higher, this one. LogSampling
	// thins the log out.
	LogLevel    zapcore.Level
	LogSampling Sampling

	// DrainDelay is for how long requests are served as before when the end
	// has been asked for, while /readyz already says no: clients learn of it
	// with a delay. DrainTimeout is for how long running requests may go on
	// after that, until they are cut off. A connection that was taken over runs
	// as long as its handler does, and not its goroutines.
	DrainDelay, DrainTimeout time.Duration

	// ReadHeaderTimeout is for how long a client may take to send a header and, where
	// there is no StallTimeout, what is left of a body that the handler does not want.
	// A connection without requests is closed after IdleTimeout.
	ReadHeaderTimeout, IdleTimeout time.Duration

	// StallTimeout is for how long a handler waits for a body of which nothing comes, or
	// for a client that takes nothing of the response: then the read or write fails. A
	// stream that makes progress may last any time. 0 is no limit. [ConfigFromEnv] sets
	// none where RequestTimeout is 0, unless the variable is set.
	StallTimeout time.Duration

	// MaxHeaderBytes is the longest header of a request; a longer one is
	// answered 431. net/http adds 4 KiB over HTTP/1, and 320 bytes over HTTP/2.
	MaxHeaderBytes int

	// Listener and AdminListener, if not nil, are served in place of the
	// ports. Serve closes them.
	Listener, AdminListener net.Listener

	// Log is where the log goes, standard error if nil.
	Log zapcore.WriteSyncer
}

// DefaultConfig returns the configuration of an empty environment.
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

// ConfigFromEnv returns the configuration that the environment asks for. An
// error names the variable that is wrong and what it should be.
func ConfigFromEnv() (Config, error) {
	return configFrom(os.Getenv)
}

func configFrom(getenv func(string) string) (Config, error) {
	c := DefaultConfig()
	c.Name = getenv("FUNCTION_NAME")
	c.Namespace = getenv("FUNCTION_NAMESPACE")
	c.Revision = getenv("FUNCTION_REVISION")
	c.Version = getenv("GOLESS_VERSION")
	err := cmp.Or( // the first error
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

// set puts the parsed value of a variable into field, if there is one.
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

// inherit takes over a listener that was opened before this program was
// executed.
func inherit(s string) (net.Listener, error) {
	fd, err := strconv.ParseUint(s, 10, 16)
	if err != nil {
		return nil, errors.New("want the number of a file descriptor")
	}
	file := os.NewFile(uintptr(fd), "listener")
	defer file.Close() //nolint:errcheck // net.FileListener has made a copy
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

// Bounds of REQUEST_HEADER_BYTES. The header of a request stays in memory while it is served.
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
		return 0, errors.New("want a duration of 0 or more, as 5s")
	}
	return d, nil
}
