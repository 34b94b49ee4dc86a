package runtime

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap/zapcore"
)

// Sampling limits how many log lines are written. If several lines of one second have the same
// level and message, the first First lines are written, and then every Thereafter-th line, or no
// more lines if Thereafter is 0. All request lines count as one message, regardless of their
// level. Lines at level error are always written. If First is 0, all lines are written.
type Sampling struct{ First, Thereafter uint64 }

// sample wraps core with the sampler that LogSampling configures.
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

// errorsUnsampled writes errors directly to a core, and all other lines through a sampler.
type errorsUnsampled struct {
	zapcore.Core
	sampled zapcore.Core
}

// Check implements [zapcore.Core].
func (c *errorsUnsampled) Check(entry zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if entry.Level >= zapcore.ErrorLevel {
		return c.Core.Check(entry, checked)
	}
	return c.sampled.Check(entry, checked)
}

// With implements [zapcore.Core].
func (c *errorsUnsampled) With(fields []zapcore.Field) zapcore.Core {
	return &errorsUnsampled{c.Core.With(fields), c.sampled.With(fields)}
}

func parseSampling(s string) (Sampling, error) {
	first, thereafter, found := strings.Cut(s, "/")
	n, err1 := strconv.ParseUint(first, 10, 31)
	m, err2 := strconv.ParseUint(thereafter, 10, 31)
	if !found || err1 != nil || err2 != nil || n == 0 {
		return Sampling{}, errors.New("want two numbers, such as 100/100: the first hundred lines of a second, then every hundredth")
	}
	return Sampling{First: n, Thereafter: m}, nil
}
