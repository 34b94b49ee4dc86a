package otlp

import (
	"fmt"
	"strconv"
	"strings"

	"goless.io/runtime/internal/trace"
)

// sampler decides whether the spans of a request are recorded.
type sampler func(parent trace.Context, remote bool) bool

func newSampler(name, arg string) (sampler, error) {
	root, parentBased := strings.CutPrefix(name, "parentbased_")
	var sample sampler
	switch root {
	case "always_on":
		sample = func(trace.Context, bool) bool { return true }
	case "always_off":
		sample = func(trace.Context, bool) bool { return false }
	case "traceidratio":
		ratio, err := parseRatio(arg)
		if err != nil {
			return nil, err
		}
		sample = byRatio(ratio)
	default:
		return nil, fmt.Errorf("OTEL_TRACES_SAMPLER is %q: want always_on, always_off or traceidratio, with or without parentbased_ before it", name)
	}
	if parentBased {
		return byParent(sample), nil
	}
	return sample, nil
}

func parseRatio(arg string) (float64, error) {
	if arg == "" {
		return 1, nil
	}
	ratio, err := strconv.ParseFloat(arg, 64)
	if err != nil || !(0 <= ratio && ratio <= 1) {
		return 0, fmt.Errorf("OTEL_TRACES_SAMPLER_ARG is %q: want a number from 0 to 1", arg)
	}
	return ratio, nil
}

// byParent does as the caller did, and asks root where there is no caller.
func byParent(root sampler) sampler {
	return func(parent trace.Context, remote bool) bool {
		if remote {
			return parent.Sampled
		}
		return root(parent, remote)
	}
}

// byRatio looks at the same bits of the trace's id as the SDKs of
// OpenTelemetry, so that all services choose the same traces.
func byRatio(ratio float64) sampler {
	bound := uint64(ratio * (1 << 63))
	return func(parent trace.Context, _ bool) bool {
		low, err := strconv.ParseUint(parent.TraceID[16:], 16, 64)
		return err == nil && low>>1 < bound
	}
}
