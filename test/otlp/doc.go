// Package otlp decodes the spans that functions export with the official protobuf messages of
// OpenTelemetry. It is not in the module of the runtime, so that functions do not depend on
// these messages.
package otlp
