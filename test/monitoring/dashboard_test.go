package monitoring

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// A dashboard contains the fields of a dashboard that the tests read.
type dashboard struct {
	UID, Title    string
	SchemaVersion int
	Panels        []panel
	Templating    struct {
		List []struct{ Name, Type string }
	}
}

type panel struct {
	ID          int
	Type, Title string
	Datasource  struct{ Type, UID string }
	GridPos     struct{ X, Y, W, H int }
	Targets     []struct{ Expr, RefID string }
}

func readDashboard(t *testing.T, name string) dashboard {
	t.Helper()
	var d dashboard
	if err := json.Unmarshal(read(t, name), &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// queries returns all queries of the dashboard, with its variables set to "All".
func (d dashboard) queries() []string {
	variables := strings.NewReplacer("$__rate_interval", "15s", "$namespace", ".*", "$function", ".*")
	var all []string
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			all = append(all, variables.Replace(target.Expr))
		}
	}
	return all
}

// Checks what Grafana would check when the dashboard is imported.
func TestDashboardsAreWellFormed(t *testing.T) {
	t.Parallel()
	for name, variables := range map[string][]string{
		"dashboard.json":          {"datasource datasource", "query namespace", "query function"},
		"operator-dashboard.json": {"datasource datasource"},
	} {
		t.Run(name, func(t *testing.T) { readDashboard(t, name).check(t, variables) })
	}
}

func (d dashboard) check(t *testing.T, want []string) {
	t.Helper()
	if d.UID == "" || d.Title == "" || d.SchemaVersion < 39 {
		t.Errorf("unexpected dashboard %q, %q, with schema version %d", d.UID, d.Title, d.SchemaVersion)
	}
	var variables []string
	for _, v := range d.Templating.List {
		variables = append(variables, v.Type+" "+v.Name)
	}
	if !slices.Equal(variables, want) {
		t.Errorf("the variables are %q, want %q", variables, want)
	}
	for i, p := range d.Panels {
		p.check(t)
		for _, other := range d.Panels[:i] {
			if p.ID == other.ID || p.overlaps(other) {
				t.Errorf("the panels %q and %q have the same ID or position", p.Title, other.Title)
			}
		}
	}
	for _, query := range d.queries() {
		if strings.Contains(query, "$") {
			t.Errorf("a query has an unknown variable: %s", query)
		}
	}
}

func (p panel) check(t *testing.T) {
	t.Helper()
	if g := p.GridPos; g.X < 0 || g.Y < 0 || g.W < 1 || g.H < 1 || g.X+g.W > 24 {
		t.Errorf("the panel %q is at %+v", p.Title, g)
	}
	if p.Type == "row" {
		return
	}
	if !slices.Contains([]string{"stat", "timeseries", "heatmap", "table"}, p.Type) {
		t.Errorf("the panel %q is of type %q", p.Title, p.Type)
	}
	if p.Datasource.Type != "prometheus" || p.Datasource.UID != "${datasource}" {
		t.Errorf("the panel %q uses %+v, not the selected data source", p.Title, p.Datasource)
	}
	if len(p.Targets) == 0 {
		t.Errorf("the panel %q has no query", p.Title)
	}
	for i, target := range p.Targets {
		if target.Expr == "" || target.RefID != string(rune('A'+i)) {
			t.Errorf("the panel %q has the query %+v", p.Title, target)
		}
	}
}

func (p panel) overlaps(other panel) bool {
	a, b := p.GridPos, other.GridPos
	return a.X < b.X+b.W && b.X < a.X+a.W && a.Y < b.Y+b.H && b.Y < a.Y+a.H
}
