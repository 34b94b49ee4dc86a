package faults

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"goless.io/operator/api/v1beta1"
	"goless.io/test/faults/wire"
)

// TestKills kills the operator at random moments while Functions change constantly.
func TestKills(t *testing.T) {
	enter(t)
	kills := 12
	if *full {
		kills = 200
	}
	const functions = 5
	choose := random()
	var over []*trial
	specs := make([]func(*v1beta1.FunctionSpec), functions)
	for range functions {
		tr := newTrial(t)
		tr.create()
		over = append(over, tr)
	}
	for _, tr := range over {
		tr.awaitReady()
	}
	line := world(t).wire
	for kill := range kills {
		i, kind, moment, from := choose.IntN(functions), choose.IntN(4), 600, line.Len()
		writes := func() bool {
			return slices.ContainsFunc(line.Requests(from), func(r wire.Request) bool { return r.Write() && r.Namespace == over[i].ns })
		}
		midway := kill%2 == 0 // the other kills occur when the operator has just begun, or is done
		if midway {
			kind, moment = 2, 150
		}
		specs[i] = change(kill, kind)
		over[i].change(specs[i])
		over[i].await(func() error {
			if midway && !writes() {
				return errors.New("the operator writes nothing")
			}
			return nil
		})
		time.Sleep(time.Duration(choose.IntN(moment)) * time.Millisecond) // the moment is what is random
		world(t).restart()
	}
	begun := time.Now()
	for i, tr := range over {
		final := tr.fn().Spec
		t.Run(fmt.Sprintf("function %d", i), func(t *testing.T) {
			tr := tr.in(t)
			tr.begun = begun
			tr.awaitReady()
			scratch := newTrial(t)
			scratch.create(func(spec *v1beta1.FunctionSpec) { *spec = final })
			scratch.awaitReady()
			scratch.settle()
			tr.await(func() error { return tr.children().like(scratch.children()) })
			tr.done = time.Now()
			tr.oracles()
			scratch.remove()
		})
		over[i].begun, over[i].done = begun, time.Now()
	}
	for kill := range kills {
		name := "kill -9 at any time"
		if kill%2 == 0 {
			name = "kill -9 in rollouts" // the operator has begun to write
		}
		table.note(t, name, true, over[0])
	}
	quiet(t, over)
}

// change is the n-th change of a spec, of one of four kinds.
func change(n, kind int) func(*v1beta1.FunctionSpec) {
	return func(spec *v1beta1.FunctionSpec) {
		switch kind {
		case 0:
			spec.Replicas = new(int32(n%3 + 1))
		case 1:
			spec.Service = fmt.Sprintf("service-%d", n%3)
		default:
			spec.Function = fmt.Sprintf("%s\n// %d.\n", first, n)
		}
	}
}
