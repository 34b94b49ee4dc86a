package faults

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
	"goless.io/test/faults/builds"
)

// share makes the Functions of a test compile in the build service.
func share(t *testing.T) {
	t.Helper()
	h := world(t)
	h.strategy = v1beta1.BuildShared
	t.Cleanup(func() {
		h.strategy = ""
		h.builds.Feel(builds.Well)
	})
}

// sharedSeed returns the seed that the build service and the operator share.
func sharedSeed(c client.Client) func(context.Context) ([]byte, error) {
	return func(ctx context.Context) ([]byte, error) {
		var secret corev1.Secret
		err := c.Get(ctx, client.ObjectKey{Namespace: "goless-system", Name: "goless-build"}, &secret)
		return secret.Data["seed"], err
	}
}

// TestSharedWrites is TestWrites for Functions that are compiled in the build service.
func TestSharedWrites(t *testing.T) {
	enter(t)
	share(t)
	var over []*trial
	defer func() { quiet(t, over) }()
	for i, name := range []string{"create", "source", "service", "scale", "recreate", "invalid", "broken"} {
		s := named(name)
		t.Run(name, func(t *testing.T) {
			want := s.reference(t)
			for j, loss := range losses[:3] {
				for k := range want.writes {
					if !*full && (i+j+k)%9 != 0 {
						continue
					}
					t.Run(fmt.Sprintf("%s/%d %s", loss.name, k+1, want.writes[k].Verb+" "+want.writes[k].Resource), func(t *testing.T) {
						over = append(over, s.againstWrite(t, "shared: "+loss.name, want, k+1, loss.fault(world(t))))
					})
				}
			}
		})
	}
}

// moods are the moods of the build service during a change.
var moods = []struct {
	name string
	mood builds.Mood
}{
	{"busy", builds.Busy},
	{"forgetful", builds.Forgetful},
	{"silent", builds.Silent},
	{"confused", builds.Confused},
}

// TestMoods sets a bad mood of the build service for a while, with an operator that is killed
// meanwhile and one that is not. Running functions are not affected, and ordered builds finish.
func TestMoods(t *testing.T) {
	enter(t)
	share(t)
	var over []*trial
	defer func() { quiet(t, over) }()
	s := named("source")
	want := s.reference(t)
	for i, m := range moods {
		for k, kill := range []bool{false, true} {
			if !*full && k != i%2 {
				continue
			}
			t.Run(fmt.Sprintf("%s, killed %t", m.name, kill), func(t *testing.T) {
				tr := newTrial(t)
				over = append(over, tr)
				defer func() { table.note(t, "shared: moods", true, tr) }()
				s.prepare(tr)
				tr.settle()
				world(t).builds.Feel(m.mood)
				s.act(tr)
				tr.await(tr.reason(v1beta1.ReasonBuilding))
				if kill {
					world(t).restart()
				}
				time.Sleep(2 * time.Second) // the length of the mood
				world(t).builds.Feel(builds.Well)
				tr.begin()
				tr.judge(want)
			})
		}
	}
}
