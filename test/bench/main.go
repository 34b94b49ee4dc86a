// Command bench measures Goless: how long builds take, what the runtime costs a
// request, and how long it takes on the cluster that KUBECONFIG names until a
// Function is ready. Everything is measured against a baseline in the same run
// and by turns, because no two machines are alike.
//
// It prints a table and writes the same figures as JSON. PLAIN_IMAGE is the
// image of the baseline on the cluster; make bench builds it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
)

// A group measures figures that belong together.
type group struct {
	// name selects the group, and is what its rows begin with or, for the
	// cluster, what they need.
	name string

	measure func(ctx context.Context, s *session) error
}

var groups = []group{
	{"build", measureBuild},
	{"runtime", measureRuntime},
	{"operator", measureOperator},
	{"cluster", measureCluster},
}

func main() {
	n := flag.Int("n", 20, "how many samples of each kind to take")
	output := flag.String("o", "bench.json", "write the figures to this `file` as JSON, beside those of other groups that it has")
	only := flag.String("only", "", "measure only these comma-separated `groups`: "+strings.Join(names(groups), ", "))
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *n, *output, *only); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1) //nolint:gocritic // stop has nothing to do at the end
	}
}

func run(ctx context.Context, n int, output, only string) error {
	selected, err := choose(only)
	if err != nil {
		return err
	}
	s, err := newSession(n)
	if err != nil {
		return err
	}
	defer s.close()
	if len(selected) < len(groups) {
		if err := s.results.read(output); err != nil {
			return err
		}
	}
	for _, g := range selected {
		if err = g.measure(ctx, s); err != nil {
			err = fmt.Errorf("measuring %s: %w", g.name, err)
			break // what there is was measured all the same
		}
	}
	return errors.Join(err, s.results.write(os.Stdout, output))
}

// choose returns the groups that a comma-separated list names, or all.
func choose(only string) ([]group, error) {
	if only == "" {
		return groups, nil
	}
	var chosen []group
	for name := range strings.SplitSeq(only, ",") {
		i := slices.IndexFunc(groups, func(g group) bool { return g.name == name })
		if i < 0 {
			return nil, fmt.Errorf("there is no group %q, choose from: %s", name, strings.Join(names(groups), ", "))
		}
		chosen = append(chosen, groups[i])
	}
	return chosen, nil
}

func names(all []group) (names []string) {
	for _, g := range all {
		names = append(names, g.name)
	}
	return names
}
