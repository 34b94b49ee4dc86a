package runtime

import (
	"bytes"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap/zapcore"
)

const (
	// flushDelay is the maximum time that a line is buffered.
	flushDelay = 10 * time.Millisecond
	// flushSize is the number of buffered bytes that are written without waiting for
	// flushDelay.
	flushSize = 32 << 10
	// pieceSize is the maximum size of one write, unless a single line is longer. Linux writes
	// that many bytes to a pipe atomically, so that other output of the process cannot end up
	// within a line.
	pieceSize = 4 << 10
	// maxWaiting is the maximum number of buffered bytes, unless a single line is longer. The
	// same number may be being written.
	maxWaiting = 1 << 20
	// lineWait is the maximum total time for which lines are awaited while the sink is slow. A
	// tenth of the time that passes is added again. A process that was slow once, because others
	// used the processors, thus still waits for its last lines.
	lineWait = 500 * time.Millisecond
	// slowWait is the shortest wait that counts toward lineWait.
	slowWait = 50 * time.Millisecond
)

// A lineBuffer writes lines to a sink from one goroutine, which runs only while there is
// something to write. New lines are collected in one buffer while the other is written. If the
// sink blocks, lines that do not fit are dropped and counted.
//
// Request lines are buffered for flushDelay, so that a busy function makes one system call for
// ten of them. They are lost if the process ends abruptly meanwhile: if user code calls os.Exit
// or panics in its own goroutine, or if the kernel kills the process. Go has no hook that runs
// before these. That is why the delay is short, and why all other lines are awaited (see
// [awaited]).
//
// The BufferedWriteSyncer of zap is not used, because it wakes an idle process repeatedly and
// blocks while its sink blocks.
type lineBuffer struct {
	sink zapcore.WriteSyncer
	// blocked counts the lines that did not fit, failed those whose write failed.
	blocked, failed prometheus.Counter

	mu      sync.Mutex
	lines   []byte        // buffered
	spare   []byte        // the other buffer, nil while it is being written
	written chan struct{} // closed when the buffered lines are written; nil if they are not awaited
	running bool          // the goroutine runs
	since   time.Time     // start of the current write, zero if there is none
	left    time.Duration // what was left of lineWait at the time charged
	charged time.Time     // end of the last slow wait; zero before it, when all of lineWait is left
	timer   *time.Timer
}

func newLineBuffer(sink zapcore.WriteSyncer, blocked, failed prometheus.Counter) *lineBuffer {
	b := &lineBuffer{sink: sink, blocked: blocked, failed: failed}
	b.timer = time.AfterFunc(flushDelay, func() { _ = b.Sync() }) // never fails
	return b
}

// Write buffers a whole line. It never waits for the sink and never fails.
func (b *lineBuffer) Write(line []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.fits(line) {
		b.blocked.Inc()
		return len(line), nil
	}
	b.lines = append(b.lines, line...)
	switch {
	case len(b.lines) >= flushSize:
		b.run()
	case len(b.lines) == len(line) && !b.running:
		b.timer.Reset(flushDelay)
	}
	return len(line), nil
}

// Sync starts writing the buffered lines, without waiting for the result. It does not sync the
// sink, which would wait for the disk if standard error is a file.
func (b *lineBuffer) Sync() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.lines) > 0 {
		b.run()
	}
	return nil
}

// fits reports whether there is room for the line. b.mu must be held.
func (b *lineBuffer) fits(line []byte) bool {
	return len(b.lines) == 0 || len(b.lines)+len(line) <= maxWaiting
}

// run starts the goroutine unless it is running. b.mu must be held.
func (b *lineBuffer) run() {
	if !b.running {
		b.running = true
		go b.writeAll()
	}
}

// writeAll writes until less than flushSize is buffered and no line is awaited.
func (b *lineBuffer) writeAll() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.timer.Stop()
	for again := true; again; again = len(b.lines) >= flushSize || b.written != nil {
		lines, written := b.lines, b.written
		b.lines, b.spare, b.written = b.spare, nil, nil
		b.writeLines(lines)
		if cap(lines) <= 2*maxWaiting { // do not keep the buffer of a very long line
			b.spare = lines[:0]
		}
		if written != nil {
			close(written)
		}
	}
	b.running = false
	if len(b.lines) > 0 {
		b.timer.Reset(flushDelay)
	}
}

// writeLines writes lines to the sink. b.mu must be held; it is released during the writes.
func (b *lineBuffer) writeLines(lines []byte) {
	for len(lines) > 0 {
		piece := lines[:pieceLength(lines)]
		lines = lines[len(piece):]
		b.since = time.Now()
		b.mu.Unlock()
		n, err := b.sink.Write(piece)
		b.mu.Lock()
		b.since = time.Time{}
		if err != nil { // the rest is not retried: it may begin within a line
			b.failed.Add(float64(bytes.Count(piece[n:], []byte{'\n'})))
		}
	}
}

// pieceLength returns how many bytes of lines to write next. A piece consists of whole lines.
func pieceLength(lines []byte) int {
	if len(lines) <= pieceSize {
		return len(lines)
	}
	end := bytes.LastIndexByte(lines[:pieceSize], '\n')
	if end < 0 {
		end = bytes.IndexByte(lines, '\n') // a single line is longer
	}
	return end + 1
}

// blockedFor returns how long the current write to the sink has been blocked.
func (b *lineBuffer) blockedFor() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.since.IsZero() {
		return 0
	}
	return time.Since(b.since)
}

// wait starts writing all lines and waits for the result, at most limit. It reports whether they
// are written.
func (b *lineBuffer) wait(limit time.Duration) bool {
	b.mu.Lock()
	if b.written == nil {
		b.written = make(chan struct{})
	}
	written := b.written
	b.run()
	b.mu.Unlock()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-written:
		return true
	case <-timer.C:
		return false
	}
}

// awaited writes lines that may be the last ones of the process, such as those of log.Fatal.
// Its Write waits until the line is written, and does not wait while the sink is blocked. If the
// sink is slow, it waits for some of the lines (see lineWait), and the others may be lost when
// the process ends.
type awaited struct{ *lineBuffer }

// Write implements [zapcore.WriteSyncer].
func (a awaited) Write(line []byte) (int, error) {
	a.mu.Lock()
	fits := a.fits(line)
	a.mu.Unlock()
	if !fits {
		a.waitUnlessBlocked()
	}
	n, err := a.lineBuffer.Write(line)
	a.waitUnlessBlocked()
	return n, err
}

// Sync implements [zapcore.WriteSyncer].
func (a awaited) Sync() error {
	a.waitUnlessBlocked()
	return nil
}

func (a awaited) waitUnlessBlocked() {
	start := time.Now()
	a.mu.Lock()
	left := a.leftAt(start)
	a.mu.Unlock()
	if left <= 0 || a.blockedFor() >= lineWait {
		return
	}
	written := a.wait(left)
	a.mu.Lock()
	defer a.mu.Unlock()
	end := time.Now() // after the lock, so that the waits end in the order in which they are charged
	if written && end.Sub(start) < slowWait {
		return
	}
	if start.Before(a.charged) { // the time of concurrent waits counts once
		start = a.charged
	}
	a.left, a.charged = a.leftAt(end)-end.Sub(start), end
}

// leftAt returns what is left of lineWait. b.mu must be held.
func (b *lineBuffer) leftAt(now time.Time) time.Duration {
	return min(lineWait, b.left+now.Sub(b.charged)/10)
}
