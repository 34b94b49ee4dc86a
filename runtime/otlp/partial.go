package otlp

import "google.golang.org/protobuf/encoding/protowire"

// Fields of ExportTraceServiceResponse and ExportTracePartialSuccess.
const (
	fieldPartialSuccess = 1
	fieldRejectedSpans  = 1
	fieldErrorMessage   = 2
)

// partialSuccess decodes a response of the collector. It returns the number of spans that the
// collector rejected, and the reason. If the collector accepted all spans, or if the response is
// invalid, it returns 0 and an empty reason.
func partialSuccess(answer []byte) (refused int, reason string) {
	partial, _ := field(answer, fieldPartialSuccess)
	_, n := field(partial, fieldRejectedSpans)
	message, _ := field(partial, fieldErrorMessage)
	return int(n), string(message)
}

// field returns the value of a field of a message: bytes or n, depending on the type of the field.
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
