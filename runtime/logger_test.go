package runtime

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/slogtest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// logged returns the log lines that do writes, without their time.
func logged(t testing.TB, c Config, do func(*processLog)) []map[string]any {
	t.Helper()
	var out bytes.Buffer
	c.Log = zapcore.AddSync(&out)
	do(newProcessLog(c))
	var lines []map[string]any
	for text := range strings.Lines(out.String()) {
		var line map[string]any
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			t.Fatalf("not a JSON object: %q: %v", text, err)
		}
		if _, err := time.Parse(time.RFC3339Nano, fmt.Sprint(line["time"])); err != nil {
			t.Error(err)
		}
		delete(line, "time")
		lines = append(lines, line)
	}
	return lines
}

type secret string

func (secret) LogValue() slog.Value { return slog.StringValue("***") }

func TestSlog(t *testing.T) {
	lines := logged(t, Config{LogLevel: zapcore.DebugLevel, Name: "hello"}, func(j *processLog) {
		l := slog.New(newSlogHandler(j.Core()))
		l.Debug("levels", "a", true)
		l.Info("kinds", "text", "a\nb", "n", -1, "u", uint64(1), "f", 1.5, "took", 250*time.Millisecond,
			"at", time.Unix(0, 0), "err", errors.New("boom"), "any", []int{1}, "password", secret("p"), slog.Attr{})
		l.With("outer", 1).WithGroup("g").With("inner", 2).Warn("groups", "last", 3, slog.Group("h", "deep", 4), slog.Group("", "flat", 5), slog.Group("none"))
		l.WithGroup("").Log(t.Context(), slog.LevelError+4, "above")
	})
	want := []map[string]any{
		{"level": "debug", "msg": "levels", "faas.name": "hello", "a": true},
		{
			"level": "info", "msg": "kinds", "faas.name": "hello", "text": "a\nb", "n": -1.0, "u": 1.0, "f": 1.5, "took": 0.25,
			"at": "1970-01-01T00:00:00Z", "err": "boom", "any": []any{1.0}, "password": "***",
		},
		{
			"level": "warn", "msg": "groups", "faas.name": "hello", "outer": 1.0,
			"g": map[string]any{"inner": 2.0, "last": 3.0, "h": map[string]any{"deep": 4.0}, "flat": 5.0},
		},
		{"level": "error", "msg": "above", "faas.name": "hello"},
	}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// An attribute never duplicates a key of its line.
func TestAttributesWithKeysOfTheLine(t *testing.T) {
	c := Config{Name: "hello"}
	lines := logged(t, c, func(j *processLog) {
		l := slog.New(newSlogHandler(j.userCore(j.Core(), "request_id")))
		l.Info("attributes", "level", "gold", "msg", 1, "time", 2, "request_id", "mine", "faas.name", "x", "faas.version", "y")
		l.With("level", "gold").Warn("derived", "n", 1)
		l.WithGroup("g").Info("in a group", "level", "gold")
		l.With("n", 1).WithGroup("msg").Info("group", "level", "gold")
		l.Info("inline", slog.Group("", "level", "gold", "took", time.Second, slog.Group("g", "level", 1)))
		zap.New(j.userCore(j.Core())).With(zap.String("level", "gold")).Error("zap", zap.Namespace("time"), zap.Int("msg", 1))
		zap.New(j.userCore(j.Core())).Error("no request", zap.String("request_id", "mine"))
	})
	want := []map[string]any{
		{
			"level": "info", "msg": "attributes", "faas.name": "hello",
			"attr.level": "gold", "attr.msg": 1.0, "attr.time": 2.0, "attr.request_id": "mine", "attr.faas.name": "x", "faas.version": "y",
		},
		{"level": "warn", "msg": "derived", "faas.name": "hello", "attr.level": "gold", "n": 1.0},
		{"level": "info", "msg": "in a group", "faas.name": "hello", "g": map[string]any{"level": "gold"}},
		{"level": "info", "msg": "group", "faas.name": "hello", "n": 1.0, "attr.msg": map[string]any{"level": "gold"}},
		{
			"level": "info", "msg": "inline", "faas.name": "hello",
			"attr.level": "gold", "took": 1.0, "g": map[string]any{"level": 1.0},
		},
		{"level": "error", "msg": "zap", "faas.name": "hello", "attr.level": "gold", "attr.time": map[string]any{"msg": 1.0}},
		{"level": "error", "msg": "no request", "faas.name": "hello", "request_id": "mine"},
	}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// Lines are sampled regardless of their attributes.
func TestAttributesAreSampled(t *testing.T) {
	lines := logged(t, Config{LogSampling: Sampling{First: 1}}, func(j *processLog) {
		l := zap.New(j.userCore(j.Core()))
		for range 100 {
			l.Info("often", zap.Int("level", 1))
		}
	})
	if len(lines) > 10 { // one per second
		t.Errorf("%d of 100 lines are written", len(lines))
	}
}

func TestSlogLevel(t *testing.T) {
	lines := logged(t, Config{LogLevel: zapcore.WarnLevel}, func(j *processLog) {
		l := slog.New(newSlogHandler(j.Core()))
		l.Info("below")
		l.Warn("at")
	})
	if diff := cmp.Diff([]map[string]any{{"level": "warn", "msg": "at"}}, lines); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// The first lines of a second with the same message are written, and some of the rest. All
// errors are written. Dropped lines are counted.
func TestSampling(t *testing.T) {
	var dropped float64
	counts := make(map[string]int)
	c := Config{LogSampling: Sampling{First: 5, Thereafter: 10}}
	for _, line := range logged(t, c, func(j *processLog) {
		for range 25 {
			j.Info("often")
			j.With(zap.Int("n", 1)).Error("fault")
		}
		j.Info("seldom")
		dropped = testutil.ToFloat64(j.sampled)
	}) {
		counts[line["msg"].(string)]++
	}
	// A new second may begin during the test, with its own first lines.
	if n := counts["often"]; n < 7 || n > 12 {
		t.Errorf("%d of 25 lines are written, want 5 and every tenth of the rest", n)
	}
	if counts["fault"] != 25 || counts["seldom"] != 1 {
		t.Errorf("errors or other messages are missing: %v", counts)
	}
	if want := 25 - counts["often"]; dropped != float64(want) {
		t.Errorf("%v lines are counted as dropped, want %d", dropped, want)
	}
}

// Each record is logged as one line and one JSON object, whatever it contains.
func FuzzSlogIsOneLine(f *testing.F) {
	f.Add("message", "key", "value")
	f.Add("a\nb", "\"}\n{\"level\":\"error", "\x00\xff\u2028\r\n")
	f.Fuzz(func(t *testing.T, msg, key, value string) {
		lines := logged(t, Config{}, func(j *processLog) {
			slog.New(newSlogHandler(j.Core())).Info(msg, key, value)
		})
		if len(lines) != 1 {
			t.Errorf("%d lines", len(lines))
		}
	})
}

// The handler passes the conformance test of the standard library.
func TestSlogConforms(t *testing.T) {
	var line map[string]any
	slogtest.Run(t, func(*testing.T) slog.Handler {
		c := DefaultConfig()
		c.Log = zapcore.AddSync(writerFunc(func(p []byte) (int, error) {
			line = nil
			return len(p), json.Unmarshal(p, &line)
		}))
		return newSlogHandler(newProcessLog(c).Core())
	}, func(*testing.T) map[string]any { return line })
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// The number of server errors that clients can cause in the log is limited.
func TestComplaintsAreFew(t *testing.T) {
	lines := logged(t, DefaultConfig(), func(j *processLog) {
		l := serverLog(j.Logger)
		for port := range 1000 {
			l.Printf("http2: server connection error from 192.0.2.1:%d", port)
		}
	})
	if len(lines) < 10 || len(lines) > 50 || lines[0]["level"] != "warn" { // ten per second
		t.Errorf("%d of 1000 lines are written, the first is %v", len(lines), lines[0])
	}
}
