package runtime

import (
	"sync"
	"time"

	"go.uber.org/zap/zapcore"
)

const (
	// flushDelay is the longest time that a line waits in a lineBuffer.
	flushDelay = 10 * time.Millisecond
	// flushSize is the most bytes that wait, unless a single line has more. Linux
	// writes that many to a pipe in one piece, so that nothing else the process
	// prints can end up within a line.
	flushSize = 4 << 10
)

// A lineBuffer gathers the lines of requests, so that a busy function makes one
// system call for ten of them.
//
// A line that waits is lost if the process ends without notice: if user code
// calls os.Exit, or panics in a goroutine of its own, or if the kernel kills the
// process. Nothing in Go can be called before these. That is why the delay is
// short, why every other line is written at once (see [unbuffered]), and why the
// buffer is synced at the end of [Serve] and after each request that went wrong.
//
// zap has a BufferedWriteSyncer, which wakes an idle process again and again.
type lineBuffer struct {
	mu    sync.Mutex
	sink  zapcore.WriteSyncer
	lines []byte
	timer *time.Timer
}

func newLineBuffer(sink zapcore.WriteSyncer) *lineBuffer {
	b := &lineBuffer{sink: sink}
	b.timer = time.AfterFunc(flushDelay, func() { _ = b.Sync() }) // there is no place left to complain in
	return b
}

// Write takes a whole line. It is written with the others that wait when the
// first of them has waited for flushDelay. While the sink is blocked, it blocks.
func (b *lineBuffer) Write(line []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.lines)+len(line) > flushSize {
		if err := b.flush(); err != nil {
			return 0, err
		}
	}
	if len(b.lines) == 0 {
		b.timer.Reset(flushDelay)
	}
	b.lines = append(b.lines, line...)
	return len(line), nil
}

// Sync writes the lines that wait. It does not sync the sink: that would be a
// wait for the disk if standard error is a file.
func (b *lineBuffer) Sync() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.flush()
}

// flush is called with the lock.
func (b *lineBuffer) flush() error {
	if len(b.lines) == 0 {
		return nil
	}
	_, err := b.sink.Write(b.lines)
	b.lines = b.lines[:0] // also after an error: half of a line must not be written again
	return err
}

// unbuffered writes each line at once, after those that wait.
type unbuffered struct{ *lineBuffer }

// Write is part of [zapcore.WriteSyncer].
func (u unbuffered) Write(line []byte) (int, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.lines = append(u.lines, line...)
	return len(line), u.flush()
}
