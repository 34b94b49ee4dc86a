package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
)

// result is one figure, and its baseline if there is one. If it could not be measured, it
// contains an error, which also represents all figures whose names begin with its name and a
// dot.
type result struct {
	Name     string   `json:"name"`
	Value    float64  `json:"value"`
	Unit     string   `json:"unit"`
	Baseline *float64 `json:"baseline"`
	Ratio    *float64 `json:"ratio"`
	N        int      `json:"n"`
	Error    string   `json:"error,omitempty"`
}

type results []result

// add adds a figure without a baseline, of n samples.
func (r *results) add(name string, value float64, unit string, n int) {
	r.put(result{Name: name, Value: round(value), Unit: unit, N: n})
}

// addRatio adds a figure and its baseline.
func (r *results) addRatio(name string, value, baseline float64, unit string, n int) {
	r.put(result{Name: name, Value: round(value), Unit: unit, Baseline: new(round(baseline)), Ratio: new(round(value / baseline)), N: n})
}

// ratio compares two figures, if both exist.
func (r results) ratio(name, baseline string) {
	find := func(name string) int {
		return slices.IndexFunc(r, func(one result) bool { return one.Name == name && one.Error == "" })
	}
	if i, j := find(name), find(baseline); i >= 0 && j >= 0 {
		r[i].Baseline, r[i].Ratio = new(r[j].Value), new(round(r[i].Value/r[j].Value))
	}
}

// fail adds a row with the reason why there is no figure.
func (r *results) fail(name string, err error) {
	r.drop(name)
	r.put(result{Name: name, Error: err.Error()})
}

// put adds a result, and replaces earlier ones of the same name.
func (r *results) put(one result) {
	*r = append(slices.DeleteFunc(*r, func(old result) bool {
		return old.Name == one.Name || old.Error != "" && covers(old.Name, one.Name)
	}), one)
}

// drop removes the rows that name represents.
func (r *results) drop(name string) {
	*r = slices.DeleteFunc(*r, func(old result) bool { return covers(name, old.Name) })
}

// has reports whether there is a row that name represents.
func (r *results) has(name string) bool {
	return slices.ContainsFunc(*r, func(one result) bool { return covers(name, one.Name) })
}

// covers reports whether a name represents another one.
func covers(name, other string) bool { return other == name || strings.HasPrefix(other, name+".") }

// read adds the results in the file, if it exists.
func (r *results) read(file string) error {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, r); err != nil {
		return fmt.Errorf("reading the figures of the last run, remove %s to go without: %w", file, err)
	}
	return nil
}

// compare adds the median and the 90th percentile of samples, with those of the baseline if
// there is one.
func (r *results) compare(name string, samples, baseline []float64, unit string) {
	for suffix, p := range map[string]float64{"median": 0.5, "p90": 0.9} {
		one := result{Name: name + "." + suffix, Value: percentile(samples, p), Unit: unit, N: len(samples)}
		if len(baseline) > 0 {
			one.Baseline = new(percentile(baseline, p))
			one.Ratio = new(round(one.Value / *one.Baseline))
		}
		r.put(one)
	}
}

// percentile returns the value that the fraction p of the samples does not exceed.
func percentile(samples []float64, p float64) float64 {
	sorted := slices.Sorted(slices.Values(samples))
	return round(sorted[int(math.Ceil(p*float64(len(sorted))))-1])
}

func median(samples []float64) float64 { return percentile(samples, 0.5) }

func round(value float64) float64 { return math.Round(value*1000) / 1000 }

// write prints a table to w and writes JSON to the file. Both contain failed measurements, the
// table with the first line of the reason.
func (r results) write(w io.Writer, file string) error {
	slices.SortFunc(r, func(a, b result) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "NAME\tVALUE\tUNIT\tBASELINE\tRATIO\tN")
	for _, one := range r {
		if one.Error != "" {
			reason, _, _ := strings.Cut(one.Error, "\n")
			fmt.Fprintf(table, "%s\tfailed\t-\t-\t-\t-\t%s\n", one.Name, reason)
			continue
		}
		if strings.HasPrefix(one.Name, "phase.") {
			continue // they have a table of their own
		}
		fmt.Fprintf(table, "%s\t%g\t%s\t%s\t%s\t%d\n", one.Name, one.Value, one.Unit, optional(one.Baseline), optional(one.Ratio), one.N)
	}
	if err := errors.Join(table.Flush(), r.phaseTable(w)); err != nil {
		return err
	}
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(text, '\n'), 0o644)
}

func optional(value *float64) string {
	if value == nil {
		return "-"
	}
	return fmt.Sprintf("%g", *value)
}
