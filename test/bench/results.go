package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"text/tabwriter"
)

// result is one figure, and what it is compared with where there is something.
type result struct {
	Name     string   `json:"name"`
	Value    float64  `json:"value"`
	Unit     string   `json:"unit"`
	Baseline *float64 `json:"baseline"`
	Ratio    *float64 `json:"ratio"`
	N        int      `json:"n"`
}

type results []result

// compare adds the median and the 90th percentile of samples, with those of the
// baseline unless it is nil.
func (r *results) compare(name string, samples, baseline []float64, unit string) {
	for suffix, p := range map[string]float64{"median": 0.5, "p90": 0.9} {
		one := result{Name: name + "." + suffix, Value: percentile(samples, p), Unit: unit, N: len(samples)}
		if baseline != nil {
			one.Baseline = new(percentile(baseline, p))
			one.Ratio = new(round(one.Value / *one.Baseline))
		}
		*r = append(*r, one)
	}
}

// percentile is the value that the part p of the samples does not exceed.
func percentile(samples []float64, p float64) float64 {
	sorted := slices.Sorted(slices.Values(samples))
	return round(sorted[int(math.Ceil(p*float64(len(sorted))))-1])
}

func round(value float64) float64 { return math.Round(value*1000) / 1000 }

// write prints a table to w and writes JSON to the file.
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
		fmt.Fprintf(table, "%s\t%g\t%s\t%s\t%s\t%d\n", one.Name, one.Value, one.Unit, optional(one.Baseline), optional(one.Ratio), one.N)
	}
	if err := table.Flush(); err != nil {
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
