package runtime

import (
	"net"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap/zapcore"
)

func TestConfig(t *testing.T) {
	tests := map[string]struct {
		env  map[string]string
		want func(*Config)
	}{
		"Empty": {want: func(*Config) {}},
		"Everything": {
			env: map[string]string{
				"SERVER_PORT": "80", "ADMIN_PORT": "65535",
				"FUNCTION_NAME": "hello", "FUNCTION_NAMESPACE": "default", "FUNCTION_REVISION": "0123abc", "GOLESS_VERSION": "v1.2.3",
				"REQUEST_TIMEOUT": "0", "REQUEST_HEADER_BYTES": "16384", "CONNECTION_IDLE_TIMEOUT": "5m", "REQUEST_CONCURRENCY": "10", "LOG_SAMPLING": "100/50",
				"LOG_LEVEL": "warn", "DRAIN_DELAY": "0s", "DRAIN_TIMEOUT": "1m",
			},
			want: func(c *Config) {
				c.ServerPort, c.AdminPort = 80, 65535
				c.Name, c.Namespace, c.Revision, c.Version = "hello", "default", "0123abc", "v1.2.3"
				c.RequestTimeout, c.StallTimeout, c.RequestConcurrency = 0, 0, 10
				c.MaxHeaderBytes, c.IdleTimeout = 16384, 5*time.Minute
				c.LogLevel, c.LogSampling = zapcore.WarnLevel, Sampling{First: 100, Thereafter: 50}
				c.DrainDelay, c.DrainTimeout = 0, time.Minute
			},
		},
		"StallTimeout": {
			env:  map[string]string{"REQUEST_TIMEOUT": "0s", "REQUEST_STALL_TIMEOUT": "5m"},
			want: func(c *Config) { c.RequestTimeout, c.StallTimeout = 0, 5*time.Minute },
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			want := DefaultConfig()
			test.want(&want)
			got, err := configFrom(func(name string) string { return test.env[name] })
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// A listener that was opened before the program started is used by its file descriptor.
func TestConfigInheritsListeners(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	file, err := listener.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	fd, err := syscall.Dup(int(file.Fd())) // configFrom closes the inherited descriptor
	if err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"ADMIN_LISTENER": strconv.Itoa(fd)}
	c, err := configFrom(func(name string) string { return env[name] })
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.AdminListener.Close() }()
	if got, want := c.AdminListener.Addr().String(), listener.Addr().String(); got != want || c.Listener != nil {
		t.Errorf("listens on %s and %v, want %s and no listener", got, c.Listener, want)
	}
	for _, wrong := range []string{"http", "65000", "-1"} {
		env["ADMIN_LISTENER"] = wrong
		if _, err := configFrom(func(name string) string { return env[name] }); err == nil || !strings.HasPrefix(err.Error(), "ADMIN_LISTENER is") {
			t.Errorf("ADMIN_LISTENER %q: %v", wrong, err)
		}
	}
}

func TestConfigErrors(t *testing.T) {
	tests := map[string]struct {
		name, value, want string
	}{
		"PortText":       {"SERVER_PORT", "http", `SERVER_PORT is "http": want a port, 1 to 65535`},
		"PortZero":       {"SERVER_PORT", "0", `SERVER_PORT is "0": want a port, 1 to 65535`},
		"PortNegative":   {"SERVER_PORT", "-1", `SERVER_PORT is "-1": want a port, 1 to 65535`},
		"PortTooHigh":    {"ADMIN_PORT", "65536", `ADMIN_PORT is "65536": want a port, 1 to 65535`},
		"SamePort":       {"ADMIN_PORT", "8080", "SERVER_PORT and ADMIN_PORT are both 8080: choose another ADMIN_PORT"},
		"Level":          {"LOG_LEVEL", "loud", `LOG_LEVEL is "loud": want debug, info, warn or error`},
		"LevelFatal":     {"LOG_LEVEL", "fatal", `LOG_LEVEL is "fatal": want debug, info, warn or error`},
		"Concurrency":    {"REQUEST_CONCURRENCY", "-1", `REQUEST_CONCURRENCY is "-1": want a number of requests, 0 for no limit`},
		"HeaderShort":    {"REQUEST_HEADER_BYTES", "1023", `REQUEST_HEADER_BYTES is "1023": want a number of bytes, 1024 to 1048576`},
		"HeaderLong":     {"REQUEST_HEADER_BYTES", "1048577", `REQUEST_HEADER_BYTES is "1048577": want a number of bytes, 1024 to 1048576`},
		"HeaderText":     {"REQUEST_HEADER_BYTES", "64Ki", `REQUEST_HEADER_BYTES is "64Ki": want a number of bytes, 1024 to 1048576`},
		"Idle":           {"CONNECTION_IDLE_TIMEOUT", "-1s", `CONNECTION_IDLE_TIMEOUT is "-1s": want a duration of 0 or more, such as 5s`},
		"Sampling":       {"LOG_SAMPLING", "100", `LOG_SAMPLING is "100": want two numbers, such as 100/100: the first hundred lines of a second, then every hundredth`},
		"DelayNoUnit":    {"DRAIN_DELAY", "5", `DRAIN_DELAY is "5": want a duration of 0 or more, such as 5s`},
		"DelayNegative":  {"DRAIN_DELAY", "-5s", `DRAIN_DELAY is "-5s": want a duration of 0 or more, such as 5s`},
		"TimeoutNoValue": {"DRAIN_TIMEOUT", " ", `DRAIN_TIMEOUT is " ": want a duration of 0 or more, such as 5s`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := configFrom(func(name string) string { return map[string]string{test.name: test.value}[name] })
			if err == nil || err.Error() != test.want {
				t.Errorf("got error %v, want %s", err, test.want)
			}
		})
	}
}
