// Package trace owns what a span is while a function runs, and the one place
// where an exporter of spans plugs in. It refuses to know where spans go and
// how they are written: without an exporter there are none, and a function
// passes the trace of its caller on as it is.
package trace

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
)

// A Recorder takes the spans of one server. All its methods are safe for
// concurrent use.
type Recorder interface {
	// Sample decides at the begin of a request whether its spans are recorded.
	// Remote tells that parent is the caller's; else it was made here, and its
	// flag says nothing.
	Sample(parent Context, remote bool) bool

	// Record takes a span that has ended. It never blocks and keeps the span;
	// one that finds no room is dropped and counted.
	Record(*Span)

	// Close sends what was recorded until ctx ends, and drops the rest.
	Close(ctx context.Context)
}

// A Span is one request, served or sent, from its begin to its end.
type Span struct {
	Context    Context
	Parent     string // id of the parent span, empty if there is none
	Kind       Kind
	Name       string
	Start, End time.Time
	Attributes []slog.Attr // strings, integers and booleans
	Events     []Event
	Failed     bool
	Message    string // why it failed, may be empty
}

// Kind says which side of a request a span is.
type Kind int

// The numbers are those of OTLP.
const (
	KindServer Kind = 2
	KindClient Kind = 3
)

// An Event is what happened within a span at one time.
type Event struct {
	Time       time.Time
	Name       string
	Attributes []slog.Attr
}

// A Resource is the function that the spans come from; what is unknown is
// empty.
type Resource struct{ Name, Namespace, Version string }

// An Opener makes a recorder of what the environment asks for, and nil if it
// asks for none. It logs to the logger and registers metrics of its own.
type Opener func(Resource, *zap.Logger, prometheus.Registerer) (Recorder, error)

var opener Opener

// Register makes open the exporter of this program. Only an init function may
// call it.
func Register(open Opener) { opener = open }

// Open returns the recorder for a server, nil if no exporter is linked or
// none is asked for. A wrong environment is logged and means none: a function
// without traces is better than no function.
func Open(r Resource, logger *zap.Logger, reg prometheus.Registerer) Recorder {
	if opener == nil {
		return nil
	}
	recorder, err := opener(r, logger, reg)
	if err != nil {
		logger.Error("spans are not exported", zap.Error(err))
		return nil
	}
	return recorder
}

// Longest texts of a span, in bytes. Spans wait in a queue of bounded length;
// these bound its memory.
const (
	maxText  = 1 << 10
	maxStack = 4 << 10
)

// Text returns s as it may be in a span: cut to 1 KiB, and copied, for a piece
// of a header would keep the whole of it.
func Text(s string) string { return strings.Clone(s[:min(len(s), maxText)]) }

// Stack is Text for a stack trace, with room for 4 KiB.
func Stack(s string) string { return strings.Clone(s[:min(len(s), maxStack)]) }
