package runtime

import (
	"bytes"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// pieces are what a log was written in.
type pieces struct {
	mu  sync.Mutex
	all []string
}

func (p *pieces) Write(piece []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all = append(p.all, string(piece))
	return len(piece), nil
}

func (*pieces) Sync() error { return nil }

// take returns the pieces that were written since it was called last.
func (p *pieces) take() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := p.all
	p.all = nil
	return all
}

// Lines of requests are written together, the first of them no later than
// flushDelay after it was logged.
func TestRequestsAreWrittenTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out pieces
		b := newLineBuffer(&out)
		for range 2 { // the second time after a pause
			for range 3 {
				_, _ = b.Write([]byte("request\n"))
				time.Sleep(flushDelay / 4)
				synctest.Wait()
				if written := out.take(); len(written) > 0 {
					t.Errorf("written before the delay is over: %q", written)
				}
			}
			time.Sleep(flushDelay / 4)
			synctest.Wait()
			if written := out.take(); !slices.Equal(written, []string{"request\nrequest\nrequest\n"}) {
				t.Errorf("%q is written after the delay, want three lines in one piece", written)
			}
			time.Sleep(time.Hour)
		}
	})
}

// A line of the user's, or a warning, is written at once, after what waits.
func TestLinesOfTheUserAreWrittenAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out pieces
		log := newProcessLog(Config{Log: &out})
		_, _ = log.buffer.Write([]byte("request\n"))
		log.Info("mine")
		written := out.take()
		if len(written) != 1 || !strings.HasPrefix(written[0], "request\n{") || !strings.HasSuffix(written[0], "}\n") {
			t.Errorf("%q is written, want the request and then the user's line", written)
		}
	})
}

// What is written in one piece is whole lines, and not too many of them.
func TestBufferedLinesStayWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out pieces
		b := newLineBuffer(&out)
		line := strings.Repeat("x", flushSize/3) + "\n"
		long := strings.Repeat("y", 2*flushSize) + "\n"
		for _, l := range []string{line, line, line, long, line} {
			if n, err := b.Write([]byte(l)); n != len(l) || err != nil {
				t.Errorf("took %d bytes of %d, %v", n, len(l), err)
			}
		}
		_ = b.Sync()
		written := out.take()
		if want := []string{line + line, line, long, line}; !slices.Equal(written, want) {
			t.Errorf("%d pieces are written, want two lines, one, the long one and one", len(written))
		}
	})
}

// No line waits when serving has ended, however it did.
func TestServeWritesTheLastLines(t *testing.T) {
	var out bytes.Buffer
	c := DefaultConfig()
	c.ServerPort, c.Log = -1, zapcore.AddSync(&out)
	log := newProcessLog(c)
	log.Logger = zap.NewNop()
	_, _ = log.requestLog().Sink.Write([]byte("request\n"))
	err := serve(t.Context(), c, Function{}, log)
	if got := out.String(); err == nil || got != "request\n" {
		t.Errorf("the log has %q after the error %v", got, err)
	}
}
