package exchange

import (
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
)

// The response headers (canonical) that carry the ids, which are also the
// request headers that they are taken from.
const (
	headerRequestID   = "X-Request-Id"
	headerTraceParent = "Traceparent"
)

// Layout of a W3C traceparent of version 00, in bytes:
// 00-<32 hex digits of trace>-<16 of parent>-<2 of flags>.
const (
	traceStart   = 3
	traceEnd     = traceStart + 32
	parentStart  = traceEnd + 1
	parentEnd    = parentStart + 16
	flagsStart   = parentEnd + 1
	traceLength  = flagsStart + 2
	maxRequestID = 128
)

// identify takes the client's ids where they are well formed, makes the
// others, and sends both back.
func (x *Exchange) identify(in, out http.Header) {
	x.TraceParent = single(in[headerTraceParent])
	if !validTraceParent(x.TraceParent) {
		x.TraceParent = x.server.ids.next()
	}
	x.RequestID = single(in[headerRequestID])
	if !validRequestID(x.RequestID) {
		x.RequestID = x.TraceID()
	}
	x.echo = [2]string{x.RequestID, x.TraceParent}
	out[headerRequestID] = x.echo[0:1:1]
	out[headerTraceParent] = x.echo[1:2:2]
}

// TraceID returns the 32 hex digits that name the trace. They are the request
// id as well where the client sent none.
func (x *Exchange) TraceID() string {
	return x.TraceParent[traceStart:traceEnd]
}

// single returns the only value of a header; several contradict each other
// and count as none.
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

// validTraceParent accepts version 00 of the W3C recommendation to the letter.
func validTraceParent(s string) bool {
	if len(s) != traceLength || s[:traceStart] != "00-" || s[traceEnd] != '-' || s[parentEnd] != '-' {
		return false
	}
	trace, parent, flags := s[traceStart:traceEnd], s[parentStart:parentEnd], s[flagsStart:]
	return lowerHex(trace) && lowerHex(parent) && lowerHex(flags) &&
		strings.Trim(trace, "0") != "" && strings.Trim(parent, "0") != ""
}

func lowerHex(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// batchSize is how many traceparents are made at once: 3.5 KB of text, which
// is what a handler holds on to that keeps one id for long.
const batchSize = 64

// ids makes traceparents. They are cut from batches, so that a request costs
// no allocation for its ids; the pool gives each processor a batch of its own.
type ids struct{ batches sync.Pool }

// next returns a traceparent that nobody has seen, with the flag "sampled"
// off, because nothing records the trace. The ids are random, as the standard
// asks; they are not secrets.
func (i *ids) next() string {
	batch, _ := i.batches.Get().(*string)
	if batch == nil {
		batch = new(string)
	}
	if *batch == "" {
		*batch = newBatch()
	}
	id := (*batch)[:traceLength]
	*batch = (*batch)[traceLength:]
	i.batches.Put(batch)
	return id
}

func newBatch() string {
	text := make([]byte, 0, batchSize*traceLength)
	for range batchSize {
		var random [24]byte
		binary.NativeEndian.PutUint64(random[0:], rand.Uint64())
		binary.NativeEndian.PutUint64(random[8:], rand.Uint64()|1) // never all zero
		binary.NativeEndian.PutUint64(random[16:], rand.Uint64()|1)
		text = append(text, "00-"...)
		text = hex.AppendEncode(text, random[:16])
		text = append(text, '-')
		text = hex.AppendEncode(text, random[16:])
		text = append(text, "-00"...)
	}
	return string(text)
}
