package faults

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"
)

// table counts the cases of each group.
var table results

type results struct {
	mu     sync.Mutex
	groups []*group
}

// group is a row of the table.
type group struct {
	name          string
	cases, passed int

	// unreached counts the cases without an error in which no fault was injected, because the
	// operator had finished before. They do not count as passed.
	unreached int

	worst     time.Duration
	worstName string
}

// note adds a case to a group, with the time that it took to converge.
func (r *results) note(t *testing.T, name string, reached bool, tr *trial) {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := slices.IndexFunc(r.groups, func(g *group) bool { return g.name == name })
	if i < 0 {
		i = len(r.groups)
		r.groups = append(r.groups, &group{name: name})
	}
	g := r.groups[i]
	g.cases++
	switch {
	case t.Failed():
		return
	case !reached:
		g.unreached++
	default:
		g.passed++
	}
	if took := tr.took(); took > g.worst {
		g.worst, g.worstName = took, t.Name()
	}
}

// missed returns the groups in which at least half of the cases had no fault, which makes them
// meaningless.
func (r *results) missed() (names []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, g := range r.groups {
		if 2*g.unreached >= g.cases {
			names = append(names, g.name)
		}
	}
	return names
}

// print writes the table.
func (r *results) print(w io.Writer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	slices.SortFunc(r.groups, func(a, b *group) int { return strings.Compare(a.name, b.name) })
	var cases, passed, unreached int
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "GROUP\tCASES\tPASSED\tUNREACHED\tWORST\tWHICH")
	for _, g := range r.groups {
		fmt.Fprintf(out, "%s\t%d\t%d\t%d\t%.1fs\t%s\n", g.name, g.cases, g.passed, g.unreached, g.worst.Seconds(), g.worstName)
		cases, passed, unreached = cases+g.cases, passed+g.passed, unreached+g.unreached
	}
	fmt.Fprintf(out, "all\t%d\t%d\t%d\t\t\n", cases, passed, unreached)
	out.Flush() //nolint:errcheck // nothing can be done about a write error
}

func TestMissed(t *testing.T) {
	r := results{groups: []*group{{name: "most", cases: 3, unreached: 2}, {name: "half", cases: 4, unreached: 2}, {name: "few", cases: 3, unreached: 1}}}
	if missed := r.missed(); !slices.Equal(missed, []string{"most", "half"}) {
		t.Errorf("missed: %q", missed)
	}
}
