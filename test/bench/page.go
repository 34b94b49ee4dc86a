package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"time"
)

// measured is the heading of a page below which the figures are.
const measured = "\n## Measured\n"

// writePage writes the figures of a file below the heading Measured of a page, a section for each
// group, with the date of the measurement, the commit and the machine. The sections of groups without
// figures in the file stay.
func writePage(page, file string) error {
	var r results
	if err := r.read(file); err != nil {
		return err
	}
	if len(r) == 0 {
		return fmt.Errorf("%s has no figures, run make bench", file)
	}
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	before, after, found := strings.Cut(string(text), measured)
	if !found {
		return fmt.Errorf("%s has no heading Measured", page)
	}
	info, err := os.Stat(file)
	if err != nil {
		return err
	}
	commit, err := exec.Command("git", "rev-parse", "--short=10", "HEAD").Output()
	if err != nil {
		return fmt.Errorf("asking for the commit: %w", err)
	}
	of := fmt.Sprintf("On %s, of commit `%s`, on %s.", info.ModTime().UTC().Format(time.DateOnly), strings.TrimSpace(string(commit)), machine())
	sections := []string{before, measured}
	for _, g := range groups {
		if rows := r.rows(g); rows != "" {
			sections = append(sections, section(g), of, "\n", rows)
			continue
		}
		if _, old, found := strings.Cut(after, section(g)); found {
			old, _, _ = strings.Cut(old, sectionStart)
			sections = append(sections, section(g), old)
		}
	}
	return os.WriteFile(page, []byte(strings.Join(sections, "")), 0o644)
}

// sectionStart begins the section of a group.
const sectionStart = "\n### The group "

func section(g group) string { return sectionStart + g.name + "\n\n" }

// rows returns a table with the figures of a group, or nothing if there are none. It lists what could
// not be measured without the reason, which may contain names of this machine.
func (r results) rows(g group) string {
	own := slices.DeleteFunc(slices.Clone(r), func(one result) bool {
		first, _, _ := strings.Cut(one.Name, ".")
		return first == "phase" || !slices.Contains(g.rows, first)
	})
	if len(own) == 0 {
		return ""
	}
	slices.SortFunc(own, func(a, b result) int { return cmp.Compare(a.Name, b.Name) })
	var out strings.Builder
	out.WriteString("\n| figure | Goless | beside | ratio | samples |\n|---|---|---|---|---|\n")
	for _, one := range own {
		switch {
		case one.Error != "":
			fmt.Fprintf(&out, "| `%s` | not measured | | | |\n", one.Name)
		case one.Baseline == nil:
			fmt.Fprintf(&out, "| `%s` | %g %s | | | %d |\n", one.Name, one.Value, one.Unit, one.N)
		default:
			fmt.Fprintf(&out, "| `%s` | %g %s | %g | %g | %d |\n", one.Name, one.Value, one.Unit, *one.Baseline, *one.Ratio, one.N)
		}
	}
	return out.String()
}

// machine describes this machine, as far as Linux reports it.
func machine() string {
	parts := []string{fmt.Sprintf("%d processors of %s", runtime.NumCPU(), runtime.GOARCH)}
	if model, err := field("/proc/cpuinfo", "model name"); err == nil {
		parts[0] += " (" + model + ")"
	}
	if memory, err := field("/proc/meminfo", "MemTotal"); err == nil {
		parts = append(parts, memory+" of memory")
	}
	if release, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		parts = append(parts, "Linux "+strings.TrimSpace(string(release)))
	}
	return strings.Join(append(parts, runtime.Version()), ", ")
}

// field returns the value in the first line of a file that begins with the name.
func field(file, name string) (string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(text)) {
		if key, value, _ := strings.Cut(line, ":"); strings.TrimSpace(key) == name {
			return strings.TrimSpace(value), nil
		}
	}
	return "", errors.New(file + " has no " + name)
}
