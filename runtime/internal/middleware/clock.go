package middleware

import (
	"sync/atomic"
	"time"
)

// A clock writes times as RFC 3339 asks, in UTC and to the microsecond. It works
// out date and time of day once in a second.
type clock struct{ now atomic.Pointer[second] }

type second struct {
	unix int64
	text string // up to the point
}

func (c *clock) append(line []byte, now time.Time) []byte {
	s := c.now.Load()
	if unix := now.Unix(); s == nil || s.unix != unix {
		s = &second{unix, now.UTC().Format("2006-01-02T15:04:05.")}
		c.now.Store(s)
	}
	line = append(line, s.text...)
	micros := now.Nanosecond() / int(time.Microsecond)
	for digit := 100_000; digit > 0; digit /= 10 {
		line = append(line, byte('0'+micros/digit%10))
	}
	return append(line, 'Z')
}
