package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	neturl "net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// A Prometheus server scrapes a function.
func TestPrometheus(t *testing.T) {
	if prometheus == "" {
		t.Skip("PROMETHEUS is not set; make e2e sets it if the package prometheus is available")
	}
	t.Parallel()
	ns := newNamespace(t)
	fn := ns.ready(ns.apply(function("measured", `package handlers

import "net/http"

func Handler(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/missing" {
		http.NotFound(w, r)
	}
}
`)))
	ns.answers(fn, "")
	server := ns.startPrometheus(forward(t, ns.name, "service/"+fn.ServiceName(), "metrics"))

	const good, missing = 5, 3
	for range good - 1 { // ns.answers has sent at least one request
		ns.call("POST", url(fn), "")
	}
	for range missing {
		ns.call("GET", url(fn)+"/missing", "")
	}
	for query, want := range map[string]string{
		`up`: "1",
		`http_server_request_duration_seconds_count{method="POST",code="200"}`:                                           fmt.Sprint(good - 1),
		`http_server_request_duration_seconds_count{method="GET",code="404"}`:                                            fmt.Sprint(missing),
		`total_by_method{method="POST"}`:                                                                                 fmt.Sprint(good - 1),
		`sum(total_invocations) - sum(http_server_request_duration_seconds_count)`:                                       "0",
		`goless_build_info{function="measured",namespace="` + ns.name + `",revision="` + fn.Status.LatestRevision + `"}`: "1",
	} {
		ns.eventually("Prometheus has "+query, func() error {
			got, err := server.query(t.Context(), query)
			if err == nil && got != want {
				err = fmt.Errorf("it has %q, want %q", got, want)
			}
			return err
		})
	}
}

// A promServer is the address of a Prometheus server.
type promServer string

// startPrometheus starts a server that scrapes the target until the test ends.
func (ns *namespace) startPrometheus(target string) promServer {
	t := ns.t
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "prometheus.yml")
	text := fmt.Sprintf(`global: {scrape_interval: 2s, scrape_timeout: 2s}
scrape_configs:
  - job_name: functions
    static_configs: [{targets: [%q]}]
`, target)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	// The server chooses its port and logs it, because a port that was free before may no
	// longer be.
	cmd := exec.CommandContext(t.Context(), prometheus, "--config.file="+file, "--storage.tsdb.path="+dir, "--web.listen-address=127.0.0.1:0")
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	written := func() string {
		text, _ := os.ReadFile(log.Name()) // empty until something is there
		return string(text)
	}
	t.Cleanup(func() {
		_ = cmd.Wait() // the end of the test's context killed it
		if t.Failed() {
			t.Logf("Prometheus wrote:\n%s", written())
		}
		_ = log.Close()
	})
	var server promServer
	ns.eventually("Prometheus listens", func() error {
		match := listening.FindStringSubmatch(written())
		if match == nil {
			return errors.New("its log does not say where")
		}
		server = promServer(match[1])
		return nil
	})
	return server
}

var listening = regexp.MustCompile(`msg="Listening on" address=([0-9.:]+)`)

// query returns the value of an expression.
func (s promServer) query(ctx context.Context, expression string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+string(s)+"/api/v1/query?query="+neturl.QueryEscape(expression), nil)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close() //nolint:errcheck // it was only read
	data, err := io.ReadAll(response.Body)
	var answer struct {
		Data struct {
			Result []struct{ Value [2]any }
		}
	}
	if err = errors.Join(err, json.Unmarshal(data, &answer)); err != nil {
		return "", fmt.Errorf("%w: %s", err, data)
	}
	if n := len(answer.Data.Result); n != 1 {
		return "", fmt.Errorf("there are %d results: %s", n, data)
	}
	return fmt.Sprint(answer.Data.Result[0].Value[1]), nil
}

// The operator's metrics require an account with goless-metrics-reader. They contain what the alerts
// use, and the memory limit of the Go runtime, which follows that of the container.
func TestOperatorMetrics(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	ns.ready(ns.apply(function("counted", answering("one build at least"))))
	// The replica without the lease has no reconciles to count.
	working := ns.operators()[0]
	address := "https://" + forward(t, systemNamespace, "pod/"+working.Name, "metrics") + "/metrics"

	if status, body := ns.scrape(address, ""); status != http.StatusUnauthorized {
		t.Errorf("without a token the status is %d: %s", status, body)
	}
	unprivileged, reader := ns.token("nobody"), ns.token("reader")
	if status, body := ns.scrape(address, unprivileged); status != http.StatusForbidden {
		t.Errorf("for an account without permissions the status is %d: %s", status, body)
	}
	binding := ns.name
	ns.kubectl("create", "clusterrolebinding", binding, "--clusterrole=goless-metrics-reader", "--serviceaccount="+ns.name+":reader")
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if _, err := kubectl(ctx, "delete", "clusterrolebinding", binding); err != nil {
			t.Error(err)
		}
	})
	ns.eventually("a metrics reader is authorized", func() error {
		status, body := ns.scrape(address, reader)
		if status != http.StatusOK || !strings.Contains(body, `controller_runtime_reconcile_total{controller="function"`) {
			return fmt.Errorf("the answer is %d: %s", status, body)
		}
		if limit := memoryLimit(&working); !strings.Contains(body, limit) {
			return fmt.Errorf("%q is not there: %s", limit, body)
		}
		for _, name := range alertedOn(t) {
			if !strings.Contains(body, "\n"+name) {
				return fmt.Errorf("an alert is on %s, which is not there: %s", name, body)
			}
		}
		return nil
	})
}

// The memory limits of the activator and the trigger controller follow those of their containers.
func TestMemoryLimits(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	for _, name := range []string{activatorName, "goless-triggers"} {
		pods, err := systemPods(t.Context(), name)
		if err != nil || len(pods) == 0 {
			t.Fatalf("%d pods of %s: %v", len(pods), name, err)
		}
		_, body := ns.scrape("http://"+forward(t, systemNamespace, "pod/"+pods[0].Name, "metrics")+"/metrics", "")
		if limit := memoryLimit(&pods[0]); !strings.Contains(body, limit) {
			t.Errorf("%s: %q is not there: %s", name, limit, body)
		}
	}
}

// memoryLimit returns the metric of a pod whose garbage collector has a limit of 90 % of the memory
// of the container.
func memoryLimit(pod *corev1.Pod) string {
	limit := float64(pod.Spec.Containers[0].Resources.Limits.Memory().Value())
	return "\ngo_gc_gomemlimit_bytes " + strconv.FormatFloat(math.Floor(limit*0.9), 'g', -1, 64) + "\n"
}

// alertedOn returns the metrics that the alerts for the operator use.
func alertedOn(t *testing.T) []string {
	t.Helper()
	rules, err := os.ReadFile(filepath.Join("..", "..", "deploy", "monitoring", "operator-alerts.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile(`\b[a-z_]+\{job="goless-operator"`).FindAllString(string(rules), -1)
	for i, name := range names {
		names[i], _, _ = strings.Cut(name, "{")
	}
	names = slices.DeleteFunc(names, func(name string) bool { return name == "up" }) // which Prometheus makes
	if len(names) < 5 {
		t.Errorf("the alerts use only the metrics %q", names)
	}
	return names
}
