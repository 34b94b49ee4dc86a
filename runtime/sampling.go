package runtime

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap/zapcore"
)

// Sampling thins the log out: of the lines of one second with the same message
// and level, the First are written and then each Thereafter-th, none if that is
// 0. The lines of requests count as one message, whatever their level. Errors are
// always written. A First of 0 writes everything.
type Sampling struct{ First, Thereafter uint64 }

// sample returns core as LogSampling wants it.
func (l *processLog) sample(core zapcore.Core) zapcore.Core {
	s := l.config.LogSampling
	if s.First == 0 {
		return core
	}
	count := func(_ zapcore.Entry, decision zapcore.SamplingDecision) {
		if decision&zapcore.LogDropped != 0 {
			l.sampled.Inc()
		}
	}
	sampled := zapcore.NewSamplerWithOptions(core, time.Second, int(s.First), int(s.Thereafter), zapcore.SamplerHook(count))
	return &errorsUnsampled{core, sampled}
}

// errorsUnsampled writes errors into a core, and all other lines into the same core
// behind a sampler.
type errorsUnsampled struct {
	zapcore.Core
	sampled zapcore.Core
}

// Check is part of [zapcore.Core].
func (c *errorsUnsampled) Check(entry zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if entry.Level >= zapcore.ErrorLevel {
		return c.Core.Check(entry, checked)
	}
	return c.sampled.Check(entry, checked)
}

// With is part of [zapcore.Core].
func (c *errorsUnsampled) With(fields []zapcore.Field) zapcore.Core {
	return &errorsUnsampled{c.Core.With(fields), c.sampled.With(fields)}
}

func parseSampling(s string) (Sampling, error) {
	first, thereafter, found := strings.Cut(s, "/")
	n, err1 := strconv.ParseUint(first, 10, 31)
	m, err2 := strconv.ParseUint(thereafter, 10, 31)
	if !found || err1 != nil || err2 != nil || n == 0 {
		return Sampling{}, errors.New("want two numbers, as 100/100: the first hundred lines of a second, then each hundredth")
	}
	return Sampling{First: n, Thereafter: m}, nil
}
