// Command bench measures Goless: the duration of builds, the cost of the runtime per request,
// and the time until a Function is ready in the cluster of KUBECONFIG. Each measurement
// alternates with that of a baseline in the same run, because machines differ.
//
// It prints a table and writes the same figures as JSON. If a measurement fails, its row
// contains the reason, the others continue, and the exit code is 1. PLAIN_IMAGE is the image of
// the baseline in the cluster; make bench builds it.
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

// A group contains related measurements.
type group struct {
	name string

	// rows are the prefixes of the names of its rows.
	rows []string

	// measure adds the rows. It returns an error if nothing could be measured; other errors are
	// recorded in the session.
	measure func(ctx context.Context, s *session) error
}

var groups = []group{
	{"build", []string{"build", "validate", "run"}, measureBuild},
	{"runtime", []string{"runtime"}, measureRuntime},
	{"operator", []string{"operator"}, measureOperator},
	{"zero", []string{"zero"}, measureZero},
	{"scale", []string{"scale"}, measureScale},
	{"wake", []string{"wake"}, measureWake},
	{"requests", []string{"requests"}, measureRequests},
	{"cluster", []string{"deploy", "answer", "update", "scale10", "crowd25", "compile", "compiles", "phase", "image"}, measureCluster},
}

func main() {
	n := flag.Int("n", 8, "how many samples of each kind to take")
	full := flag.Bool("full", false, "measure 5000 and 10,000 Functions, many objects of others, 1000 Functions that sleep, 100 that wake at once, 20,000 requests while functions fall asleep, and the day of a web shop: that takes about two hours more")
	output := flag.String("o", "bench.json", "write the figures to this `file` as JSON, beside those of other groups that it has")
	only := flag.String("only", "", "measure only these comma-separated `groups`: "+strings.Join(names(groups), ", "))
	plot := flag.String("plot", "", "write a plot of the group requests to this SVG `file`")
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
	if err := run(ctx, *n, *full, *output, *only, *plot); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1) //nolint:gocritic // stop has nothing to do at the end
	}
}

func run(ctx context.Context, n int, full bool, output, only, plot string) error {
	selected, err := choose(only)
	if err != nil {
		return err
	}
	s, err := newSession(n, full)
	if err != nil {
		return err
	}
	defer s.close()
	s.plot = plot
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

// choose returns the groups in a comma-separated list, or all.
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
