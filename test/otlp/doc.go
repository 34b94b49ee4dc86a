// Package otlp holds the test of what functions export: spans as the official
// types of OpenTelemetry read them. They are a dependency that no function
// should have, so the test is here and not in the module of the runtime.
package otlp
