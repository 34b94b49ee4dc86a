package faults

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"goless.io/test/faults/plane"
)

var (
	full     = flag.Bool("full", false, "run all cases, which takes some two hours, and not a selection")
	operator = flag.String("operator", "", "test this `program`, and not what the working tree compiles to")
	patience = flag.Duration("patience", 90*time.Second, "wait so long for anything; what a case took is in the table")
	seed     = flag.Uint64("seed", uint64(time.Now().UnixNano()), "choose random cases by this seed")
)

func TestMain(m *testing.M) {
	flag.Parse()
	assets := cmp.Or(os.Getenv("KUBEBUILDER_ASSETS"), filepath.Join("..", "..", ".cache", "assets"))
	if _, err := os.Stat(filepath.Join(assets, "kube-apiserver")); err != nil {
		fmt.Fprintln(os.Stderr, "there is no API server to test against, build one with: make assets:", err)
		os.Exit(1)
	}
	code, err := run(m, assets)
	if err != nil {
		fmt.Fprintln(os.Stderr, "faults:", err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M, assets string) (int, error) {
	ctrl.SetLogger(zap.New(zap.WriteTo(os.Stderr)))
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	repo, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		return 1, err
	}
	if *operator == "" {
		dir, err := os.MkdirTemp("", "goless-operator-")
		if err != nil {
			return 1, err
		}
		defer os.RemoveAll(dir) //nolint:errcheck // temporary files
		*operator = filepath.Join(dir, "goless-operator")
		if err := plane.BuildOperator(repo, *operator, plane.Racing()); err != nil {
			return 1, err
		}
	}
	go pauses.run()
	worlds.start = func() (*harness, error) { return newHarness(ctx, assets, repo) }
	defer worlds.close()
	code := m.Run()
	table.print(os.Stdout)
	fmt.Fprintf(os.Stdout, "seed %d\n", *seed)
	if missed := table.missed(); len(missed) > 0 {
		return 1, fmt.Errorf("the operator was done before the moment of half of the faults or more came, so these groups tell too little: %q", missed)
	}
	return code, nil
}

// random returns the source of a group's random choices.
func random() *rand.Rand { return rand.New(rand.NewPCG(*seed, 0)) }
