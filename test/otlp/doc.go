// Package otlp tests the spans that functions export with the official types of OpenTelemetry.
// These are a dependency that functions should not have, so the test is not in the module of
// the runtime.
package otlp
