package otlp

import "testing"

// A collector may answer what it likes.
func FuzzPartialSuccess(f *testing.F) {
	f.Add([]byte("\x0a\x0b\x08\x02\x12\x07too big"), false)
	f.Add([]byte(`{"partialSuccess":{"rejectedSpans":"2"}}`), true)
	f.Add([]byte("\x0a\xff\xff\xff\xff\x0f"), false)
	f.Fuzz(func(t *testing.T, answer []byte, asJSON bool) {
		_, reason := partialSuccess(answer, asJSON)
		if len(reason) > 3*len(answer) {
			t.Errorf("%d bytes become %d", len(answer), len(reason))
		}
	})
}

func TestPartialSuccessInProtobuf(t *testing.T) {
	refused, reason := partialSuccess([]byte("\x0a\x0b\x08\x02\x12\x07too big"), false)
	if refused != 2 || reason != "too big" {
		t.Errorf("%d spans are refused for %q", refused, reason)
	}
}
