package main

import (
	"time"

	"goless.io/builder"
)

// An outcome is how the build of one Function has ended.
type outcome struct {
	report builder.Report
	code   exit // with --report
}

// exitBuilder is the exit code with --report when the source is not at fault.
const exitBuilder = 20

// newOutcome describes how a build ended, see builder.NewReport.
func newOutcome(b *builder.Builder, took time.Duration, err error) outcome {
	o := outcome{report: builder.NewReport(b, took, err)}
	switch o.report.Reason {
	case builder.Built:
	case builder.CompileFailed:
		o.code = 10
		if builder.TooLarge(err) {
			o.code = 14
		}
	case builder.BuildTimeout:
		o.code = 11
	case builder.BuildOutOfMemory:
		o.code = 12
	case builder.InvalidSource:
		o.code = 13
	default:
		o.code = exitBuilder
	}
	return o
}
