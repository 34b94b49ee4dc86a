package runtime

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap/zapcore"
)

// hang is the function that the log must name.
func hang(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// While Start hangs, the log reports its stack and its duration.
func TestStartThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		c := DefaultConfig()
		c.Log = zapcore.AddSync(&log)
		s := &server{config: c, logger: newProcessLog(c).Logger, hooks: Function{Start: hang}}
		ctx, cancel := context.WithTimeout(t.Context(), 75*time.Second)
		defer cancel()
		if started, err := s.start(ctx, nil); started || err != nil {
			t.Errorf("started: %t, %v", started, err)
		}
		if after := warnings(t, log.String()); !slices.Equal(after, []float64{10, 20, 40}) {
			t.Errorf("within 75 s warnings were logged after %v seconds, want 10, 20 and 40", after)
		}
	})
}

// warnings returns the seconds after which each log line reports that Start has not returned.
// It fails the test if a line has no stack.
func warnings(t *testing.T, log string) (after []float64) {
	t.Helper()
	for line := range strings.Lines(log) {
		var entry struct {
			Level, Msg, Stacktrace string
			Duration               float64
		}
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			t.Fatal(err)
		}
		if entry.Msg != "Start has not returned yet" {
			continue
		}
		after = append(after, entry.Duration)
		if entry.Level != "warn" || !strings.Contains(entry.Stacktrace, "runtime.hang(") || !strings.Contains(entry.Stacktrace, "slowstart_test.go:") {
			t.Errorf("the warning does not contain the stack of Start: %s", line)
		}
	}
	return after
}
