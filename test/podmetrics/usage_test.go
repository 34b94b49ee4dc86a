package main

import (
	"encoding/json"
	"fmt"
	"testing"
)

// said returns the response of a kubelet about two containers after some milliseconds.
func said(at int, seconds, others float64) []byte {
	return fmt.Appendf(nil, `# HELP container_cpu_usage_seconds_total [STABLE] Cumulative cpu time consumed by the container in core-seconds
# TYPE container_cpu_usage_seconds_total counter
container_cpu_usage_seconds_total{container="function",namespace="a",pod="hello-1"} %g %d
container_cpu_usage_seconds_total{container="function",namespace="b",pod="hello-1"} %g %d
# HELP container_memory_working_set_bytes [STABLE] Current working set of the container in bytes
# TYPE container_memory_working_set_bytes gauge
container_memory_working_set_bytes{container="function",namespace="a",pod="hello-1"} 1.048576e+07 %d
`, seconds, at, others, at, at)
}

// told returns what a client reads about a pod.
func told(t *testing.T, u *usage) string {
	t.Helper()
	m, ok := u.of("a", "hello-1")
	if !ok {
		return "unknown"
	}
	text, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestUsage(t *testing.T) {
	const half = `{"metadata":{"name":"hello-1","namespace":"a"},"timestamp":"1970-01-01T00:00:20Z","window":"10s","containers":[{"name":"function","usage":{"cpu":"500m","memory":"10Mi"}}]}`
	for name, test := range map[string]struct {
		said [][]byte
		want string
	}{
		"Nothing":      {want: "unknown"},
		"Once":         {[][]byte{said(10_000, 1, 0)}, "unknown"},
		"Twice":        {[][]byte{said(10_000, 1, 0), said(20_000, 6, 9)}, half},
		"NothingNew":   {[][]byte{said(10_000, 1, 0), said(20_000, 6, 9), said(20_000, 6, 9)}, half},
		"StartedAgain": {[][]byte{said(10_000, 1, 0), said(20_000, 6, 9), said(30_000, 0.5, 9)}, "unknown"},
		"Gone":         {[][]byte{said(10_000, 1, 0), said(20_000, 6, 9), nil}, "unknown"},
	} {
		t.Run(name, func(t *testing.T) {
			var u usage
			for _, text := range test.said {
				if err := u.add("node", text); err != nil {
					t.Fatal(err)
				}
			}
			if got := told(t, &u); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}
