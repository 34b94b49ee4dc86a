package wire

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
)

// TestValveLosesWhatWasHeld releases a valve while closed streams have not returned yet, and
// still write.
func TestValveLosesWhatWasHeld(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(*Valve)
		want string
	}{
		"Release": {func(*Valve) {}, "held\nlate\n"},
		"Cut":     {(*Valve).Cut, ""},
		"Expire":  {(*Valve).Expire, gone410},
	} {
		t.Run(name, func(t *testing.T) {
			valve := &Valve{}
			valve.Hold()
			held, released := make(chan struct{}), make(chan struct{})
			forward := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				io.WriteString(w, "held\n") //nolint:errcheck // to a recorder
				close(held)
				<-released
				io.WriteString(w, "late\n") //nolint:errcheck // likewise
			})
			answer := httptest.NewRecorder()
			request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
			var watch sync.WaitGroup
			watch.Go(func() { valve.Fault()(answer, request, forward) })
			<-held
			c.end(valve)
			valve.Release()
			close(released)
			watch.Wait()
			if got := answer.Body.String(); got != c.want {
				t.Errorf("the watch received %q, want %q", got, c.want)
			}
		})
	}
}
