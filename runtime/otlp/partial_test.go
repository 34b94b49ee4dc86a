package otlp

import "testing"

// The response of a collector can be any data.
func FuzzPartialSuccess(f *testing.F) {
	f.Add([]byte("\x0a\x0b\x08\x02\x12\x07too big"))
	f.Add([]byte("\x0a\xff\xff\xff\xff\x0f"))
	f.Fuzz(func(t *testing.T, answer []byte) {
		_, reason := partialSuccess(answer)
		if len(reason) > 3*len(answer) {
			t.Errorf("a reason in %d bytes became %d bytes long", len(answer), len(reason))
		}
	})
}
