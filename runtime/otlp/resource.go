package otlp

import (
	"cmp"
	"log/slog"
	"maps"
	"os"
	goruntime "runtime"
	"slices"

	"goless.io/runtime/internal/trace"
)

// version is that of the exporter.
const version = "1.0.0"

// resource says what the spans come from, sorted by name. What the environment
// says wins over what the function knows of itself.
func (e *environment) resource(r trace.Resource) []slog.Attr {
	host, _ := os.Hostname() // left out if unknown
	attributes := map[string]string{
		"service.name":            cmp.Or(r.Name, "unknown_service:function"),
		"service.namespace":       r.Namespace,
		"service.version":         r.Version,
		"faas.name":               r.Name,
		"faas.version":            r.Version,
		"host.name":               host,
		"process.runtime.name":    "go",
		"process.runtime.version": goruntime.Version(),
		"telemetry.sdk.name":      "goless",
		"telemetry.sdk.language":  "go",
		"telemetry.sdk.version":   version,
	}
	const name = "OTEL_RESOURCE_ATTRIBUTES"
	pairs, err := parsePairs(e.getenv(name))
	if err != nil {
		e.fail(name, err)
	}
	for _, pair := range pairs {
		attributes[pair.Key] = pair.Value.String()
	}
	if service := e.getenv("OTEL_SERVICE_NAME"); service != "" {
		attributes["service.name"] = service
	}
	var sorted []slog.Attr
	for _, key := range slices.Sorted(maps.Keys(attributes)) {
		if attributes[key] != "" {
			sorted = append(sorted, slog.String(key, attributes[key]))
		}
	}
	return sorted
}
