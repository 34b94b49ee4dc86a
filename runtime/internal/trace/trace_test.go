package trace_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"goless.io/runtime/internal/trace"
)

const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

func TestContext(t *testing.T) {
	c := trace.Parse(traceparent)
	want := trace.Context{TraceID: "0af7651916cd43dd8448eb211c80319c", SpanID: "b7ad6b7169203331", Sampled: true}
	if c != want {
		t.Errorf("parsed %+v, want %+v", c, want)
	}
	if got := c.TraceParent(); got != traceparent {
		t.Errorf("written %s, want %s", got, traceparent)
	}
	id, span := c.Bytes()
	if id[0] != 0x0a || id[15] != 0x9c || span[0] != 0xb7 || span[7] != 0x31 {
		t.Errorf("the bytes are %x and %x", id, span)
	}
}

func TestFlags(t *testing.T) {
	for flags, sampled := range map[string]bool{"00": false, "01": true, "02": false, "03": true, "ff": true, "fe": false} {
		c := trace.Parse(traceparent[:53] + flags)
		if c.Sampled != sampled {
			t.Errorf("flags %s: sampled is %t", flags, c.Sampled)
		}
	}
}

func TestChild(t *testing.T) {
	parent := trace.Parse(traceparent)
	parent.TraceState = "a=1"
	child, sibling := parent.Child(), parent.Child()
	if child.SpanID == parent.SpanID || child.SpanID == sibling.SpanID || len(child.SpanID) != 16 {
		t.Errorf("the ids are %s, %s and %s", parent.SpanID, child.SpanID, sibling.SpanID)
	}
	child.SpanID = parent.SpanID
	if child != parent {
		t.Errorf("the child is %+v, of %+v", child, parent)
	}
}

func TestState(t *testing.T) {
	long := strings.Repeat("x", 256)
	for _, test := range []struct {
		values []string
		want   string
	}{
		{nil, ""},
		{[]string{"rojo=00f067aa0ba902b7"}, "rojo=00f067aa0ba902b7"},
		{[]string{"a=1,b=2", "t@v=3"}, "a=1,b=2,t@v=3"},
		{[]string{"a=1 ,, b = 2"}, ""}, // no space in a key
		{[]string{"a=1 ,,\tb=x y"}, "a=1 ,,\tb=x y"},
		{[]string{"a"}, ""},
		{[]string{"=1"}, ""},
		{[]string{"a="}, ""},
		{[]string{"A=1"}, ""},
		{[]string{"@a=1"}, ""},
		{[]string{"a@b@c=1"}, ""},
		{[]string{"a=1=2"}, ""},
		{[]string{"a=\x01"}, ""},
		{[]string{"a=é"}, ""},
		{[]string{" , "}, ""},
		{[]string{"a=" + long}, "a=" + long},
		{[]string{"a=x" + long}, ""},
		{[]string{"x" + long + "=1"}, ""},
		{[]string{strings.Repeat("a=1,", 31) + "a=1"}, strings.Repeat("a=1,", 31) + "a=1"},
		{[]string{strings.Repeat("a=1,", 32) + "a=1"}, ""},
		{[]string{strings.Repeat(",", 4000) + "a=1"}, ""},
	} {
		if got := trace.State(test.values); got != test.want {
			t.Errorf("State(%q) = %q, want %q", test.values, got, test.want)
		}
	}
}

// Whatever a client sends, what goes on to the next function is printable.
func FuzzState(f *testing.F) {
	f.Add("a=1,b=2", "c@d=3")
	f.Add("a=\r\nX-Evil: 1", "")
	f.Fuzz(func(t *testing.T, first, second string) {
		for _, c := range []byte(trace.State([]string{first, second})) {
			if c != '\t' && (c < ' ' || c > '~') {
				t.Errorf("%q has byte %#x", trace.State([]string{first, second}), c)
			}
		}
	})
}

func TestTextIsCutAndCopied(t *testing.T) {
	long := strings.Repeat("x", 10_000)
	if got := len(trace.Text(long)); got != 1024 {
		t.Errorf("a text has %d bytes", got)
	}
	if got := len(trace.Stack(long)); got != 4096 {
		t.Errorf("a stack has %d bytes", got)
	}
	if got := trace.Text("short"); got != "short" {
		t.Errorf("a short text becomes %q", got)
	}
}

type recorder struct{}

func (recorder) Sample(trace.Context, bool) bool { return true }
func (recorder) Record(*trace.Span)              {}
func (recorder) Close(context.Context)           {}

func TestOpen(t *testing.T) {
	core, log := observer.New(zapcore.DebugLevel)
	logger := zap.New(core)
	if got := trace.Open(trace.Resource{}, logger, prometheus.NewRegistry()); got != nil {
		t.Errorf("there is a recorder without an exporter: %v", got)
	}
	t.Cleanup(func() { trace.Register(nil) })
	for _, test := range []struct {
		recorder trace.Recorder
		err      error
	}{{recorder{}, nil}, {nil, nil}, {nil, errors.New("wrong")}} {
		trace.Register(func(trace.Resource, *zap.Logger, prometheus.Registerer) (trace.Recorder, error) {
			return test.recorder, test.err
		})
		if got := trace.Open(trace.Resource{}, logger, prometheus.NewRegistry()); got != test.recorder {
			t.Errorf("the recorder is %v, want %v", got, test.recorder)
		}
	}
	if got := log.FilterMessage("spans are not exported").Len(); got != 1 || log.Len() != 1 {
		t.Errorf("the log is %v", log.All())
	}
}
