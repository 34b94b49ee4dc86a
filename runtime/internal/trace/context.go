package trace

import (
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"strings"
)

// Context names a span as W3C Trace Context does.
type Context struct {
	TraceID    string // 32 hex digits
	SpanID     string // 16 hex digits
	Sampled    bool
	TraceState string // may be empty
}

// Parse reads a traceparent of version 00 that is known to be well formed.
func Parse(traceparent string) Context {
	return Context{
		TraceID: traceparent[3:35],
		SpanID:  traceparent[36:52],
		Sampled: strings.IndexByte("13579bdf", traceparent[54]) >= 0,
	}
}

// TraceParent returns the header traceparent.
func (c Context) TraceParent() string {
	flags := "00"
	if c.Sampled {
		flags = "01"
	}
	return "00-" + c.TraceID + "-" + c.SpanID + "-" + flags
}

// Child returns the context of a new span in the same trace.
func (c Context) Child() Context {
	c.SpanID = fmt.Sprintf("%016x", rand.Uint64()|1) // never all zero
	return c
}

// Bytes returns the ids as bytes.
func (c Context) Bytes() (trace [16]byte, span [8]byte) {
	_, _ = hex.Decode(trace[:], []byte(c.TraceID)) // Parse and Child leave hex digits alone
	_, _ = hex.Decode(span[:], []byte(c.SpanID))
	return trace, span
}
