// Command bench measures Goless: how long builds take, what the runtime costs a
// request, and how long it takes on the cluster that KUBECONFIG names until a
// Function is ready. Everything is measured against a baseline in the same run
// and by turns, because no two machines are alike.
//
// It prints a table and writes the same figures as JSON. What could not be measured
// is a row of both that says why, costs no other row, and is told by the exit code 1.
// PLAIN_IMAGE is the image of the baseline on the cluster; make bench builds it.
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
	"syscall"

	"go.uber.org/zap/zapcore"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
)

// A group measures figures that belong together.
type group struct {
	name string

	// rows are what the names of its rows begin with.
	rows []string

	// measure adds the rows. Its error is that nothing could be measured; what
	// else goes wrong is left in the session.
	measure func(ctx context.Context, s *session) error
}

var groups = []group{
	{"build", []string{"build", "validate", "run"}, measureBuild},
	{"runtime", []string{"runtime"}, measureRuntime},
	{"operator", []string{"operator"}, measureOperator},
	{"zero", []string{"zero"}, measureZero},
	{"wake", []string{"wake"}, measureWake},
	{"cluster", []string{"deploy", "answer", "update", "scale10", "crowd25", "compile", "compiles", "phase", "image"}, measureCluster},
}

func main() {
	n := flag.Int("n", 8, "how many samples of each kind to take")
	full := flag.Bool("full", false, "measure 5000 Functions, many objects of others, 1000 Functions that sleep, 100 that wake at once, 20,000 requests while functions fall asleep, and the day of a web shop: that takes more than an hour more")
	output := flag.String("o", "bench.json", "write the figures to this `file` as JSON, beside those of other groups that it has")
	only := flag.String("only", "", "measure only these comma-separated `groups`: "+strings.Join(names(groups), ", "))
	page := flag.String("page", "", "measure nothing, and write the figures that the file has below the heading Measured of this `page` in Markdown")
	flag.Parse()
	if *page != "" {
		if err := writePage(*page, *output); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			os.Exit(1)
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctrl.SetLogger(zap.New(zap.WriteTo(os.Stderr), zap.Level(zapcore.ErrorLevel)))
	if err := run(ctx, *n, *full, *output, *only); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1) //nolint:gocritic // stop has nothing to do at the end
	}
}

func run(ctx context.Context, n int, full bool, output, only string) error {
	selected, err := choose(only)
	if err != nil {
		return err
	}
	s, err := newSession(n, full)
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
		s.step(ctx, g.name, g.rows, func(ctx context.Context) error { return g.measure(ctx, s) })
	}
	s.progress.end()
	failed := errors.Join(s.failures...)
	if failed != nil {
		failed = fmt.Errorf("these could not be measured:\n%w", failed)
	}
	return errors.Join(s.results.write(os.Stdout, output), failed)
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
