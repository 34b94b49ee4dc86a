package runtime

import (
	"bytes"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap/zapcore"
)

const (
	// flushDelay is the longest time that a line waits in a lineBuffer before it is
	// written.
	flushDelay = 10 * time.Millisecond
	// flushSize is how many bytes wait at most for flushDelay.
	flushSize = 32 << 10
	// pieceSize is the most bytes of one write, unless a single line has more. Linux
	// writes that many to a pipe in one piece, so that nothing else the process
	// prints can end up within a line.
	pieceSize = 4 << 10
	// maxWaiting is how many bytes wait at most, unless a single line has more. As
	// many are being written.
	maxWaiting = 1 << 20
	// lineWait is how long a line that is awaited waits until it is written.
	lineWait = 250 * time.Millisecond
	// slowWait is the wait after which the sink is slow: then lines are not awaited for
	// ten times as long as that one was.
	slowWait = 50 * time.Millisecond
)

// A lineBuffer writes lines to a sink from one goroutine, which runs while there
// is something to write. Lines wait in one buffer while the other is written. If
// the sink blocks, the lines that do not fit are dropped and counted.
//
// The lines of requests are gathered for flushDelay, so that a busy function makes
// one system call for ten of them. They are lost if the process ends without
// notice meanwhile: if user code calls os.Exit, or panics in a goroutine of its own,
// or if the kernel kills the process. Nothing in Go can be called before these. That
// is why the delay is short, and why every other line is awaited (see [awaited]).
//
// zap has a BufferedWriteSyncer, which wakes an idle process repeatedly and blocks
// while its sink does.
type lineBuffer struct {
	sink zapcore.WriteSyncer
	// blocked counts the lines that did not fit, failed those that the sink returned
	// an error for.
	blocked, failed prometheus.Counter

	mu      sync.Mutex
	lines   []byte        // that wait
	spare   []byte        // the other buffer, nil while it is written
	written chan struct{} // closed when the lines that wait are written; nil if that is not awaited
	running bool          // the goroutine
	since   time.Time     // the begin of the write that is under way, else zero
	again   time.Time     // when lines are awaited again, after a wait that was slow
	timer   *time.Timer
}

func newLineBuffer(sink zapcore.WriteSyncer, blocked, failed prometheus.Counter) *lineBuffer {
	b := &lineBuffer{sink: sink, blocked: blocked, failed: failed}
	b.timer = time.AfterFunc(flushDelay, func() { _ = b.Sync() }) // it does not fail
	return b
}

// Write takes a whole line. It never waits for the sink and never fails.
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

// Sync has the lines that wait written now, and does not wait for that. It does not
// sync the sink: that would be a wait for the disk if standard error is a file.
func (b *lineBuffer) Sync() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.lines) > 0 {
		b.run()
	}
	return nil
}

// fits is called with the lock.
func (b *lineBuffer) fits(line []byte) bool {
	return len(b.lines) == 0 || len(b.lines)+len(line) <= maxWaiting
}

// run starts the goroutine unless it runs. It is called with the lock.
func (b *lineBuffer) run() {
	if !b.running {
		b.running = true
		go b.writeAll()
	}
}

// writeAll writes until there are too few lines for a write, and none is awaited.
func (b *lineBuffer) writeAll() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.timer.Stop()
	for again := true; again; again = len(b.lines) >= flushSize || b.written != nil {
		lines, written := b.lines, b.written
		b.lines, b.spare, b.written = b.spare, nil, nil
		b.writeLines(lines)
		if cap(lines) <= 2*maxWaiting { // not after a line that is longer
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

// writeLines is called with the lock, which it releases while it writes.
func (b *lineBuffer) writeLines(lines []byte) {
	for len(lines) > 0 {
		piece := lines[:pieceLength(lines)]
		lines = lines[len(piece):]
		b.since = time.Now()
		b.mu.Unlock()
		n, err := b.sink.Write(piece)
		b.mu.Lock()
		b.since = time.Time{}
		if err != nil { // the rest is not tried again: it may begin within a line
			b.failed.Add(float64(bytes.Count(piece[n:], []byte{'\n'})))
		}
	}
}

// pieceLength returns how many bytes of lines are written together: whole lines.
func pieceLength(lines []byte) int {
	if len(lines) <= pieceSize {
		return len(lines)
	}
	end := bytes.LastIndexByte(lines[:pieceSize], '\n')
	if end < 0 {
		end = bytes.IndexByte(lines, '\n') // of a line that is longer
	}
	return end + 1
}

// blockedFor returns for how long the sink has not taken what is being written.
func (b *lineBuffer) blockedFor() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.since.IsZero() {
		return 0
	}
	return time.Since(b.since)
}

// wait has all lines written, and waits for that, but no longer than limit.
func (b *lineBuffer) wait(limit time.Duration) {
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
	case <-timer.C:
	}
}

// awaited is for lines that may be the last ones of the process, such as those of
// log.Fatal. Their writers wait until they are written, but no longer than lineWait,
// and not at all once the sink has blocked for that time. With a sink that is slow they
// spend a tenth of the time on that: then such lines may be lost at the end.
type awaited struct{ *lineBuffer }

// Write is part of [zapcore.WriteSyncer].
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

// Sync is part of [zapcore.WriteSyncer].
func (a awaited) Sync() error {
	a.waitUnlessBlocked()
	return nil
}

func (a awaited) waitUnlessBlocked() {
	start := time.Now()
	a.mu.Lock()
	slow := start.Before(a.again)
	a.mu.Unlock()
	if slow || a.blockedFor() >= lineWait {
		return
	}
	a.wait(lineWait)
	if took := time.Since(start); took >= slowWait {
		a.mu.Lock()
		a.again = time.Now().Add(10 * took)
		a.mu.Unlock()
	}
}
