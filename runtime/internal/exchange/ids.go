package exchange

import (
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"net/http"
	"strings"
)

// Canonical names of the headers with the IDs. Only the first one is also a response header.
const (
	headerRequestID   = "X-Request-Id"
	headerTraceParent = "Traceparent"
	headerTraceState  = "Tracestate"
)

// Layout of a W3C traceparent of version 00, in bytes: 00-<32 hex digits of trace>-<16 of
// parent>-<2 of flags>.
const (
	traceStart   = 3
	traceEnd     = traceStart + 32
	parentStart  = traceEnd + 1
	parentEnd    = parentStart + 16
	flagsStart   = parentEnd + 1
	traceLength  = flagsStart + 2
	maxRequestID = 128
)

// identify takes the valid IDs from the request header, and generates the others.
func (x *Exchange) identify(in http.Header) {
	x.TraceParent = parseTraceParent(single(in[headerTraceParent]))
	if x.Remote = x.TraceParent != ""; x.Remote {
		x.TraceState = in[headerTraceState]
	} else {
		x.TraceParent = newTraceParent()
	}
	x.RequestID = single(in[headerRequestID])
	if x.newRequestID = !validRequestID(x.RequestID); x.newRequestID {
		x.RequestID = x.TraceID()
	}
	x.sentID[0] = x.RequestID // now, because later a handler may be reading the response header
}

// sendRequestID adds the request ID to the header of a response if the ID was generated or the
// status is 5xx, unless the handler has set another one. Other clients have sent the ID themselves.
func (x *Exchange) sendRequestID(out http.Header, status int) {
	if !x.newRequestID && status < http.StatusInternalServerError {
		return
	}
	if _, set := out[headerRequestID]; !set {
		out[headerRequestID] = x.sentID[:]
	}
}

// TraceID returns the 32 hex digits of the trace ID. It is also the request ID if the client
// sent none.
func (x *Exchange) TraceID() string {
	return x.TraceParent[traceStart:traceEnd]
}

// SpanID returns the 16 hex digits of the span ID in TraceParent.
func (x *Exchange) SpanID() string {
	return x.TraceParent[parentStart:parentEnd]
}

// SetSpan sets the span in which the handler runs. It must belong to the same trace.
func (x *Exchange) SetSpan(traceParent string) { x.TraceParent = traceParent }

// Sampled reports whether the trace is recorded.
func (x *Exchange) Sampled() bool {
	return strings.IndexByte("13579bdf", x.TraceParent[traceLength-1]) >= 0
}

// single returns the only value of a header. It returns "" if there are several, because they
// contradict each other.
func single(values []string) string {
	if len(values) != 1 {
		return ""
	}
	return values[0]
}

func validRequestID(s string) bool {
	if s == "" || len(s) > maxRequestID {
		return false
	}
	for i := range len(s) {
		c := s[i]
		alphanumeric := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
		if !alphanumeric && c != '.' && c != '_' && c != '-' {
			return false
		}
	}
	return true
}

// parseTraceParent returns s as version 00 of the W3C recommendation, or "" if s is invalid. As
// the recommendation requires, fields that a later version appends are dropped.
func parseTraceParent(s string) string {
	if len(s) < traceLength || s[traceStart-1] != '-' || s[traceEnd] != '-' || s[parentEnd] != '-' {
		return ""
	}
	version, trace, parent, flags := s[:traceStart-1], s[traceStart:traceEnd], s[parentStart:parentEnd], s[flagsStart:traceLength]
	switch {
	case !lowerHex(version) || !lowerHex(trace) || !lowerHex(parent) || !lowerHex(flags),
		allZero(trace), allZero(parent):
		return ""
	case version == "00" && len(s) == traceLength:
		return s
	case version == "00" || version == "ff" || len(s) > traceLength && s[traceLength] != '-':
		return ""
	}
	return "00" + s[len(version):traceLength]
}

func allZero(s string) bool { return strings.Trim(s, "0") == "" }

func lowerHex(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// newTraceParent returns a generated traceparent. The flag "sampled" is not set, because the
// trace is not recorded. The IDs are random, as the recommendation requires, but not secret.
func newTraceParent() string {
	var ids [24]byte
	binary.NativeEndian.PutUint64(ids[:], rand.Uint64())
	binary.NativeEndian.PutUint64(ids[8:], rand.Uint64()|1) // an ID of zeros is invalid
	binary.NativeEndian.PutUint64(ids[16:], rand.Uint64()|1)
	text := append(make([]byte, 0, traceLength), "00-"...)
	text = hex.AppendEncode(text, ids[:16])
	text = append(text, '-')
	text = hex.AppendEncode(text, ids[16:])
	return string(append(text, "-00"...))
}
