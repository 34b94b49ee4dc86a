package runtime

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/zap/zapcore"
)

// pieces records the writes of a log.
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

// take returns the writes since the previous call.
func (p *pieces) take() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := p.all
	p.all = nil
	return all
}

// aCounter returns a counter for a test.
func aCounter() prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{Name: "lines"})
}

// Request lines are written together, at most flushDelay after the first one was logged.
func TestRequestsAreWrittenTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out pieces
		b := newLineBuffer(&out, aCounter(), aCounter())
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

// A line of the user, or a warning, is written immediately, after the buffered lines.
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

// Each write consists of whole lines, up to a maximum size.
func TestPiecesAreWholeLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out pieces
		b := newLineBuffer(&out, aCounter(), aCounter())
		line := strings.Repeat("x", pieceSize/3) + "\n"
		long := strings.Repeat("y", 2*pieceSize) + "\n"
		for _, l := range []string{line, line, line, long, line} {
			if n, err := b.Write([]byte(l)); n != len(l) || err != nil {
				t.Errorf("took %d bytes of %d, %v", n, len(l), err)
			}
		}
		time.Sleep(flushDelay)
		synctest.Wait()
		written := out.take()
		if want := []string{line + line, line, long, line}; !slices.Equal(written, want) {
			t.Errorf("got %d writes, want two lines, one line, the long line and one line", len(written))
		}
	})
}

// All lines are written when Serve returns, even after an error.
func TestServeWritesTheLastLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out pieces
		log := newProcessLog(Config{Log: &out})
		_, _ = log.requestLog().Sink.Write([]byte("request\n"))
		log.end()
		if written := out.take(); !slices.Equal(written, []string{"request\n"}) {
			t.Errorf("unexpected log %q", written)
		}
	})
}

// blockable is a sink whose writes can be blocked.
type blockable struct {
	pieces
	free chan struct{} // closed unless the sink is blocked
}

func (b *blockable) Write(piece []byte) (int, error) {
	<-b.free
	return b.pieces.Write(piece)
}

// A blocked sink delays no line for long.
func TestBlockedSinkIsNotAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &blockable{free: make(chan struct{})}
		log := newProcessLog(Config{Log: out})
		took := func(want time.Duration, do func()) {
			t.Helper()
			began := time.Now()
			do()
			if d := time.Since(began); d != want {
				t.Errorf("it took %s, want %s", d, want)
			}
		}
		took(lineWait, func() { log.Info("first") })
		took(0, func() { log.Info("second") })
		took(0, func() { _, _ = log.requestLog().Sink.Write(make([]byte, maxWaiting)) })
		took(0, func() { log.Error("third") })
		took(endWait, log.end)
		if d := log.buffer.blockedFor(); d != lineWait+endWait {
			t.Errorf("blocked returned %s", d)
		}
		close(out.free)
		synctest.Wait()
		if d := log.buffer.blockedFor(); d != 0 {
			t.Errorf("blocked returned %s after all lines were written", d)
		}
	})
}

// slowly is a sink with slow writes.
type slowly struct {
	pieces
	while time.Duration
}

func (s *slowly) Write(piece []byte) (int, error) {
	time.Sleep(s.while)
	return s.pieces.Write(piece)
}

// With a slow sink, handlers wait only for some of the lines. The second one is among these: a
// process that was slow once may end with it.
func TestSlowSinkIsSeldomAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newProcessLog(Config{Log: &slowly{while: lineWait / 3}})
		waits := func() bool {
			began := time.Now()
			log.Info("line")
			return time.Since(began) > 0
		}
		if first, second := waits(), waits(); !first || !second {
			t.Error("the logger does not wait for one of the first two lines")
		}
		for range 20 {
			waits()
		}
		time.Sleep(20 * lineWait)
		if !waits() {
			t.Error("the logger does not wait for a line long after the slow write")
		}
		log.end()
	})
}

// With a slow sink, concurrent handlers wait as long as one does, not longer.
func TestSlowSinkDelaysAllHandlersOnce(t *testing.T) {
	const handlers, total = 10, 20 * lineWait
	synctest.Test(t, func(t *testing.T) {
		log := newProcessLog(Config{Log: &slowly{while: lineWait / 3}})
		began := time.Now()
		waited := make([]time.Duration, handlers)
		var all sync.WaitGroup
		for i := range waited {
			all.Go(func() {
				for time.Since(began) < total {
					before := time.Now()
					log.Info("line")
					waited[i] += time.Since(before)
					time.Sleep(100 * time.Millisecond)
				}
			})
		}
		all.Wait()
		if longest := slices.Max(waited); longest > lineWait+total/5 {
			t.Errorf("a handler waited %s in %s, want about %s", longest, total, lineWait+total/10)
		}
		log.end()
	})
}

// While the sink is blocked, lines are buffered until the buffer is full. They are written in
// order when it is unblocked.
func TestBlockedSink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &blockable{free: make(chan struct{})}
		log := newProcessLog(Config{Log: out})
		requests := log.requestLog().Sink
		log.Info("mine")
		log.Info("mine")
		const line = 1 << 10
		for range 2 * maxWaiting / line {
			_, _ = requests.Write([]byte(strings.Repeat("x", line-1) + "\n"))
			_ = requests.Sync()
		}
		log.Error("does not fit" + strings.Repeat("x", line))
		close(out.free)
		synctest.Wait()
		all := strings.Join(out.take(), "")
		lines := strings.Count(all, "\n")
		if lost := testutil.ToFloat64(log.dropped.WithLabelValues("blocked")); lines+int(lost) != 2+2*maxWaiting/line+1 || lost < maxWaiting/line {
			t.Errorf("got %d lines written and %v dropped", lines, lost)
		}
		if strings.Count(all, "mine") != 2 || strings.Contains(all, "does not fit") || !strings.HasPrefix(all, "{") || !strings.HasSuffix(all, "x\n") {
			t.Errorf("the wrong lines are written: %d bytes", len(all))
		}
	})
}

// A line that is longer than the buffer is written when the sink is not blocked.
func TestLongLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out pieces
		log := newProcessLog(Config{Log: &out})
		_, _ = log.buffer.Write([]byte("request\n"))
		log.Info(strings.Repeat("y", 2*maxWaiting))
		if written := out.take(); len(written) != 2 || len(written[1]) < 2*maxWaiting {
			t.Errorf("got %d writes, want one with the request and one with the long line", len(written))
		}
	})
}

// Lines whose write fails are counted.
func TestFailingSink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newProcessLog(Config{Log: zapcore.AddSync(writerFunc(func([]byte) (int, error) { return 0, errors.New("disk full") }))})
		log.Info("one")
		log.Info("two")
		if lost := testutil.ToFloat64(log.dropped.WithLabelValues("failed")); lost != 2 {
			t.Errorf("%v lines are counted as lost, want 2", lost)
		}
	})
}

// While the log is blocked, the function is not ready.
func TestReadyWhileTheLogIsBlocked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &blockable{free: make(chan struct{})}
		log := newProcessLog(Config{Log: out})
		r := newReadiness(nil, log.Logger, log.buffer.blockedFor)
		r.set(ready)
		probe := func() int {
			answer := httptest.NewRecorder()
			r.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/readyz", nil))
			return answer.Code
		}
		log.Info("blocked") // waits for lineWait
		time.Sleep(maxBlocked - 2*lineWait)
		if status := probe(); status != http.StatusOK {
			t.Errorf("/readyz returned %d while the log is blocked for a moment", status)
		}
		time.Sleep(lineWait)
		if status := probe(); status != http.StatusServiceUnavailable {
			t.Errorf("/readyz returned %d while the log is blocked", status)
		}
		close(out.free)
		synctest.Wait()
		if status := probe(); status != http.StatusOK {
			t.Errorf("/readyz returned %d after the log was blocked", status)
		}
	})
}
