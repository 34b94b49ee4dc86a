package faults

import (
	"fmt"
	"syscall"
	"testing"
	"time"
)

// outages are ways in which the control plane becomes unavailable, and available again.
var outages = []struct {
	name  string
	times int // in the full set
	do    func(*trial)
}{
	{"etcd held for 10s", 1, func(tr *trial) {
		tr.must(world(tr.t).plane.Etcd.Signal(syscall.SIGSTOP))
		time.Sleep(10 * time.Second) // the length of the outage
		tr.must(world(tr.t).plane.Etcd.Signal(syscall.SIGCONT))
	}},
	{"etcd killed", 3, func(tr *trial) {
		world(tr.t).plane.Etcd.Kill()
		tr.must(world(tr.t).plane.Etcd.Start())
	}},
	{"kube-apiserver killed", 10, func(tr *trial) {
		world(tr.t).plane.APIServer.Kill()
		tr.must(world(tr.t).plane.APIServer.Start())
	}},
	{"kube-apiserver held for 20s", 1, func(tr *trial) {
		tr.must(world(tr.t).plane.APIServer.Signal(syscall.SIGSTOP))
		time.Sleep(20 * time.Second) // the length of the outage
		tr.must(world(tr.t).plane.APIServer.Signal(syscall.SIGCONT))
	}},
	{"both killed and away for 10s", 1, func(tr *trial) {
		world(tr.t).plane.APIServer.Kill()
		world(tr.t).plane.Etcd.Kill()
		time.Sleep(10 * time.Second) // the length of the outage
		tr.must(world(tr.t).plane.Etcd.Start())
		tr.must(world(tr.t).plane.AwaitEtcd(tr.t.Context()))
		tr.must(world(tr.t).plane.APIServer.Start())
	}},
	{"history gone and kube-apiserver killed", 1, func(tr *trial) {
		tr.must(world(tr.t).plane.Compact(tr.t.Context()))
		world(tr.t).plane.APIServer.Kill()
		tr.must(world(tr.t).plane.APIServer.Start())
	}},
}

// TestOutages makes the control plane unavailable during a rollout.
func TestOutages(t *testing.T) {
	enter(t)
	var over []*trial
	defer func() { quiet(t, over) }()
	s := named("source")
	want := s.reference(t)
	for i, outage := range outages {
		for n := range outage.times {
			if !*full && (n > 0 || i == 3 || i == 5) {
				continue
			}
			t.Run(fmt.Sprintf("%s %d", outage.name, n+1), func(t *testing.T) {
				tr := newTrial(t)
				over = append(over, tr)
				defer func() { table.note(t, "outage", true, tr) }()
				s.prepare(tr)
				tr.settle()
				tr.outage = true
				s.act(tr)
				outage.do(tr)
				tr.must(world(t).plane.Await(t.Context()))
				tr.begin()
				tr.judge(want)
			})
		}
	}
}
