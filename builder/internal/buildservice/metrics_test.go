package buildservice

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"goless.io/builder/buildapi"
)

func TestMetrics(t *testing.T) {
	r := newReplica(t, Config{Version: "v1.2.3", Commit: "0123"})
	key, _ := r.build(t, buildapi.Order{Namespace: "team-a", Source: source(t, "")})
	r.build(t, buildapi.Order{Namespace: "team-a", Source: source(t, "var x int = nil\n")})
	r.binary(t, key)

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error)
	go func() { served <- r.ServeMetrics(ctx, listener) }()
	response, err := http.Get("http://" + listener.Addr().String() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close() //nolint:errcheck // it was only read
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`goless_build_service_build_duration_seconds_count{reason="Built"} 1`,
		`goless_build_service_build_duration_seconds_count{reason="CompileFailed"} 1`,
		`goless_build_service_queue_duration_seconds_count 2`,
		`goless_build_service_fetches_total{by="pod"} 1`,
		`goless_build_service_queue_length 0`,
		`goless_build_service_store_results 2`,
		`goless_build_service_build_info{commit="0123",go_version="` + runtime.Version() + `",version="v1.2.3"} 1`,
	} {
		if !strings.Contains(string(body), want+"\n") {
			t.Errorf("there is no line %s", want)
		}
	}
	problems, err := promlint.New(bytes.NewReader(body)).Lint()
	if err != nil || len(problems) > 0 {
		t.Errorf("what Prometheus says of it: %v, %v", problems, err)
	}
	stop()
	if err := <-served; err != nil {
		t.Errorf("ServeMetrics: %v", err)
	}
}
