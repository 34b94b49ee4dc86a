package otlp

import "google.golang.org/protobuf/encoding/protowire"

// Fields of ExportTraceServiceResponse and ExportTracePartialSuccess.
const (
	fieldPartialSuccess = 1
	fieldRejectedSpans  = 1
	fieldErrorMessage   = 2
)

// partialSuccess reads how many spans the collector refused and why from its
// answer. A collector that took all of them says 0 and nothing; an answer that
// cannot be read is taken for that.
func partialSuccess(answer []byte) (refused int, reason string) {
	partial, _ := field(answer, fieldPartialSuccess)
	_, n := field(partial, fieldRejectedSpans)
	message, _ := field(partial, fieldErrorMessage)
	return int(n), string(message)
}

// field returns the value of a field of a message, bytes or a number as its
// type is.
func field(message []byte, want protowire.Number) (bytes []byte, n uint64) {
	for len(message) > 0 {
		number, wire, size := protowire.ConsumeTag(message)
		if size < 0 {
			return nil, 0
		}
		message = message[size:]
		size = protowire.ConsumeFieldValue(number, wire, message)
		if size < 0 {
			return nil, 0
		}
		if number == want {
			switch wire {
			case protowire.BytesType:
				bytes, _ = protowire.ConsumeBytes(message)
			case protowire.VarintType:
				n, _ = protowire.ConsumeVarint(message)
			}
		}
		message = message[size:]
	}
	return bytes, n
}
