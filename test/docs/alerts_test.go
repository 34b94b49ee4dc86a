package docs

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// runbook is the path of the runbook in the repository. Administrators set where its readers
// find it.
const runbook = "docs/runbook.md"

type alert struct {
	Alert       string
	Labels      map[string]string
	Annotations map[string]string
}

// Every alert has a section in runbook.md, to which it links, and every section is about one.
func TestAlerts(t *testing.T) {
	all := append(alerts(t, "alerts.yaml"), alerts(t, "operator-alerts.yaml")...)
	var links []string
	for _, a := range all {
		links = append(links, a.Annotations["runbook_url"])
	}
	var sections []string
	for _, h := range readPage(t, "docs/runbook.md").Headings() {
		if h.Level == 3 {
			sections = append(sections, runbook+"#"+h.Anchor())
		}
	}
	slices.Sort(links)
	slices.Sort(sections)
	if diff := cmp.Diff(links, sections); diff != "" {
		t.Errorf("the runbook_url of the alerts of deploy/monitoring are not the sections of docs/runbook.md (-alerts +sections):\n%s", diff)
	}
}

// An alert about Goless has the label of its namespace. Alerts about functions have that of
// their metrics. Alerts are routed by namespace.
func TestAlertsHaveNamespaces(t *testing.T) {
	for _, a := range alerts(t, "operator-alerts.yaml") {
		if a.Labels["namespace"] != "goless-system" {
			t.Errorf("the labels of %s are %v, want namespace: goless-system", a.Alert, a.Labels)
		}
	}
}

// alerts returns the alerts of a file of deploy/monitoring.
func alerts(t *testing.T, name string) (all []alert) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(repo, "deploy", "monitoring", name))
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Groups []struct{ Rules []alert } }
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	for _, group := range file.Groups {
		all = append(all, group.Rules...)
	}
	return all
}
