package monitoring

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// folder is the directory under test.
const folder = "../../deploy/monitoring"

// program returns the path of prometheus, or of promtool in the same directory. PROMETHEUS
// contains it; otherwise it is searched where make installs it, and in PATH.
func program(t *testing.T, name string) string {
	t.Helper()
	if server := os.Getenv("PROMETHEUS"); server != "" {
		return filepath.Join(filepath.Dir(server), name)
	}
	cached, err := filepath.Abs("../../.cache/prometheus/usr/bin/" + name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(cached); err == nil {
		return cached
	}
	found, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("%s is not installed; run make .cache/prometheus/usr/bin/prometheus on Debian, or set PROMETHEUS", name)
	}
	return found
}

// promtool runs in the directory of the monitoring files.
func promtool(t *testing.T, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program(t, "promtool"), args...)
	cmd.Dir = folder
	if output, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, output)
	}
}

// A prometheus is the address of a server.
type prometheus string

var listening = regexp.MustCompile(`msg="Listening on" address=([0-9.:]+)`)

// startPrometheus starts a server with the configuration until the test ends. It chooses its
// port and logs it.
func startPrometheus(t *testing.T, config string) prometheus {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "prometheus.yml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program(t, "prometheus"), "--config.file="+file, "--storage.tsdb.path="+dir,
		"--web.listen-address=127.0.0.1:0", "--enable-feature=exemplar-storage")
	cmd.Stdout, cmd.Stderr = log, log
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
	var address string
	eventually(t, "Prometheus listens", func() error {
		match := listening.FindStringSubmatch(written())
		if match == nil {
			return errors.New("its log does not say where")
		}
		address = match[1]
		return nil
	})
	return prometheus(address)
}

// get calls the API and decodes the field data of the response.
func (p prometheus) get(ctx context.Context, path string, query url.Values, data any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+string(p)+path+"?"+query.Encode(), nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close() //nolint:errcheck // it was only read
	body, err := io.ReadAll(resp.Body)
	answer := struct {
		Error string
		Data  any
	}{Data: data}
	if err = errors.Join(err, json.Unmarshal(body, &answer)); err != nil {
		return fmt.Errorf("%w: %s", err, body)
	}
	if answer.Error != "" {
		return errors.New(answer.Error)
	}
	return nil
}

// A sample is one series of a response, with its current value.
type sample struct {
	Metric map[string]string
	Value  [2]any // time, and the value as text
}

// query returns the current series of an expression.
func (p prometheus) query(ctx context.Context, expression string) ([]sample, error) {
	var data struct{ Result []sample }
	err := p.get(ctx, "/api/v1/query", url.Values{"query": {expression}}, &data)
	return data.Result, err
}

// eventually polls until the condition holds, for at most five minutes.
func eventually(t *testing.T, what string, condition func() error) {
	t.Helper()
	deadline := time.Now().Add(5 * time.Minute)
	for {
		err := condition()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Errorf("timed out after 5m waiting until %s: %v", what, err)
			return
		}
		select {
		case <-t.Context().Done():
			t.Fatalf("the test ended before %s: %v", what, err)
		case <-time.After(200 * time.Millisecond):
		}
	}
}
