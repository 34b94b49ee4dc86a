package monitoring

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

func TestAlertsHold(t *testing.T) {
	t.Parallel()
	for _, file := range alertFiles {
		promtool(t, "check", "rules", file+".yaml")
		promtool(t, "test", "rules", file+"_test.yaml")
	}
}

var alertFiles = []string{"alerts", "operator-alerts"}

// Each alert has a unit test. The result of promtool is the only output.
func TestEveryAlertIsTested(t *testing.T) {
	t.Parallel()
	for _, file := range alertFiles {
		var rules struct {
			Groups []struct {
				Rules []struct{ Alert string }
			}
		}
		decode(t, file+".yaml", &rules)
		tests := string(read(t, file+"_test.yaml"))
		for _, rule := range rules.Groups[0].Rules {
			if !strings.Contains(tests, "alertname: "+rule.Alert+"\n        exp_alerts:") {
				t.Errorf("%s_test.yaml does not test %s", file, rule.Alert)
			}
		}
	}
}

// The Prometheus Operator has each job that an alert selects: that of the operator by the name
// of its Service, and the others by their relabeling.
func TestMonitorsHaveJobs(t *testing.T) {
	t.Parallel()
	monitors := string(read(t, "podmonitor.yaml")) + string(read(t, "operator-servicemonitor.yaml"))
	jobs := map[string]bool{}
	for _, file := range alertFiles {
		for _, match := range regexp.MustCompile(`job="([a-z-]+)"`).FindAllStringSubmatch(string(read(t, file+".yaml")), -1) {
			jobs[match[1]] = true
		}
	}
	if len(jobs) == 0 {
		t.Error("no alert selects a job")
	}
	for job := range jobs {
		if !regexp.MustCompile(`(name: |replacement: |[\[ ])` + job + `[,}\]\n]`).MatchString(monitors) {
			t.Errorf("neither podmonitor.yaml nor operator-servicemonitor.yaml defines the job %s, which alerts select", job)
		}
	}
}

// A Prometheus that finds the function's pod with scrape.yaml has data for every panel of the
// dashboard, and evaluates every alert.
func TestMonitoring(t *testing.T) {
	t.Parallel()
	function := serve(t)
	server := startPrometheus(t, configOf(t, function.admin))
	function.load(t)

	server.answers(t, readDashboard(t, "dashboard.json"))
	eventually(t, "the alerts are evaluated", func() error { return evaluated(t, server) })
	eventually(t, "there are exemplars", func() error {
		var series []struct{ Exemplars []any }
		err := server.get(t.Context(), "/api/v1/query_exemplars", map[string][]string{
			"query": {"http_server_request_duration_seconds_bucket"}, "start": {"0"}, "end": {"4000000000"},
		}, &series)
		if err == nil && len(series) == 0 {
			err = fmt.Errorf("there are none")
		}
		return err
	})
	wantLabels(t, server)
}

// answers requires data for every query of a dashboard.
func (p prometheus) answers(t *testing.T, d dashboard) {
	t.Helper()
	for _, query := range d.queries() {
		eventually(t, "Prometheus has data for "+query, func() error {
			samples, err := p.query(t.Context(), query)
			if err == nil && !slices.ContainsFunc(samples, isNumber) {
				err = fmt.Errorf("it has %v", samples)
			}
			return err
		})
	}
}

// wantLabels requires the labels that scrape.yaml sets, and no duplicates.
func wantLabels(t *testing.T, server prometheus) {
	t.Helper()
	var got map[string]string
	eventually(t, "the function is scraped exactly once", func() error { // a busy machine misses a scrape
		samples, err := server.query(t.Context(), "goless_build_info")
		if err != nil || len(samples) != 1 {
			return fmt.Errorf("goless_build_info is %v, %w", samples, err)
		}
		got = samples[0].Metric
		return nil
	})
	for label, want := range map[string]string{
		"namespace": "default", "function": "measured", "pod": "measured-1", "revision": "abc", "exported_function": "", "exported_namespace": "",
	} {
		if got[label] != want {
			t.Errorf("the label %s is %q, want %q", label, got[label], want)
		}
	}
	if up, err := server.query(t.Context(), "up"); err != nil || len(up) != 1 {
		t.Errorf("%d targets are scraped, want only the function's metrics: %v", len(up), err)
	}
}

func isNumber(s sample) bool { return s.Value[1] != "NaN" }

func evaluated(t *testing.T, server prometheus) error {
	var data struct {
		Groups []struct {
			Rules []struct{ Name, Health, LastError string }
		}
	}
	if err := server.get(t.Context(), "/api/v1/rules", nil, &data); err != nil {
		return err
	}
	if len(data.Groups) == 0 {
		return fmt.Errorf("there are no alerts")
	}
	for _, rule := range data.Groups[0].Rules {
		if rule.Health != "ok" {
			return fmt.Errorf("%s is %s: %s", rule.Name, rule.Health, rule.LastError)
		}
	}
	return nil
}

// configOf returns scrape.yaml with three ports of pods that it would find in a cluster. Only
// the first one is the metrics port of a function.
func configOf(t *testing.T, admin string) string {
	t.Helper()
	var config map[string]any
	decode(t, "scrape.yaml", &config)
	alerts, err := filepath.Abs(filepath.Join(folder, "alerts.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	config["global"] = map[string]any{"scrape_interval": "2s", "scrape_timeout": "2s", "evaluation_interval": "1s"}
	config["rule_files"] = []string{alerts}
	jobs := config["scrape_configs"].([]any)
	config["scrape_configs"] = jobs[:1] // no operator is here
	job := jobs[0].(map[string]any)
	delete(job, "kubernetes_sd_configs")
	pod := func(change map[string]string) any {
		labels := map[string]string{
			"__meta_kubernetes_namespace":                           "default",
			"__meta_kubernetes_pod_name":                            "measured-1",
			"__meta_kubernetes_pod_phase":                           "Running",
			"__meta_kubernetes_pod_container_port_name":             "metrics",
			"__meta_kubernetes_pod_label_goless_io_function":        "measured",
			"__meta_kubernetes_pod_labelpresent_goless_io_function": "true",
		}
		maps.Copy(labels, change)
		return map[string]any{"targets": []string{admin}, "labels": labels}
	}
	job["static_configs"] = []any{
		pod(nil),
		pod(map[string]string{"__meta_kubernetes_pod_container_port_name": "http"}),
		pod(map[string]string{"__meta_kubernetes_pod_phase": "Succeeded"}),
		pod(map[string]string{"__meta_kubernetes_pod_labelpresent_goless_io_function": ""}),
	}
	text, err := yaml.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The scrape configurations select the names that the operator creates.
func TestScrapedNames(t *testing.T) {
	t.Parallel()
	deployment := string(readFile(t, "../../operator/internal/desired/testdata/hello.yaml"))
	for _, want := range []string{"goless.io/function:", "name: metrics"} {
		if !strings.Contains(deployment, want) {
			t.Errorf("the objects of a function do not have %q, which scrape.yaml selects", want)
		}
	}
	var monitor struct {
		Spec struct {
			Selector struct {
				MatchExpressions []struct{ Key, Operator string }
			}
			PodMetricsEndpoints []struct{ Port, Path string }
		}
	}
	decode(t, "podmonitor.yaml", &monitor)
	selector, endpoints := monitor.Spec.Selector.MatchExpressions, monitor.Spec.PodMetricsEndpoints
	if len(selector) != 1 || selector[0].Key != "goless.io/function" || selector[0].Operator != "Exists" {
		t.Errorf("podmonitor.yaml selects %v", selector)
	}
	if len(endpoints) != 1 || endpoints[0].Port != "metrics" || endpoints[0].Path != "/metrics" {
		t.Errorf("podmonitor.yaml scrapes %v", endpoints)
	}
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	return readFile(t, filepath.Join(folder, name))
}

func readFile(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func decode(t *testing.T, name string, into any) {
	t.Helper()
	if err := yaml.Unmarshal(read(t, name), into); err != nil {
		t.Fatal(err)
	}
}
