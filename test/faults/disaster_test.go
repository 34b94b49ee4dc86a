package faults

import (
	"context"
	"errors"
	"syscall"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestFullDisk fills the disk of etcd during a rollout. The operator continues when there is
// space.
func TestFullDisk(t *testing.T) {
	enter(t)
	s := named("source")
	want := s.reference(t)
	tr := newTrial(t)
	defer func() { table.note(t, "etcd full", true, tr) }()
	s.prepare(tr)
	tr.settle()
	h := world(t)
	tr.must(h.operator.Signal(syscall.SIGSTOP))
	s.act(tr)
	tr.must(h.plane.Fill(t.Context()))
	full := true
	t.Cleanup(func() {
		if full {
			h.plane.Free(context.WithoutCancel(t.Context())) //nolint:errcheck // the test has failed
		}
	})
	tr.must(h.operator.Signal(syscall.SIGCONT))
	tr.await(func() error { // until the operator has met it
		for _, event := range h.audit.of(t, tr.ns) {
			if event.IsWrite() && event.ResponseStatus.Code >= 500 {
				return nil
			}
		}
		return errors.New("no write of the operator has failed")
	})
	tr.must(h.plane.Free(t.Context()))
	full = false
	tr.begin()
	tr.judge(want)
	quiet(t, []*trial{tr})
}

// TestRestored restores etcd from a backup, and restarts all controllers including the
// operator, as the documentation of Kubernetes requires: all objects have their old versions,
// and what was created since is gone and what was deleted since is back.
func TestRestored(t *testing.T) {
	enter(t)
	h := world(t)
	changed, deleted, created := newTrial(t), newTrial(t), newTrial(t)
	for _, tr := range []*trial{changed, deleted} {
		ready(tr)
		tr.settle()
	}
	want := changed.children()
	changed.must(h.plane.Save(t.Context()))
	changed.change(source(second))
	changed.awaitReady()
	deleted.remove()
	ready(created)
	for _, tr := range []*trial{changed, deleted, created} {
		tr.settle()
	}
	changed.must(h.plane.Restore(t.Context()))
	changed.must(h.renew())
	h.restart()
	for i, tr := range []*trial{changed, deleted} {
		t.Run([]string{"changed since", "deleted since"}[i], func(t *testing.T) {
			tr := tr.in(t)
			defer func() { table.note(t, "etcd restored", true, tr) }()
			tr.begin()
			tr.change(replicas(2))
			tr.awaitReady()
			tr.change(replicas(1))
			tr.await(func() error { return tr.children().like(want) })
			tr.awaitReady()
			tr.settle()
			tr.done = time.Now()
			tr.untouched()
		})
	}
	t.Run("created since", func(t *testing.T) {
		if created.in(t).fn() != nil {
			t.Fatal("the Function exists, although the backup does not contain it")
		}
	})
	h.unbroken(t)
}

// skews are leases of a former leader with a wrong clock.
var skews = []struct {
	name string
	by   time.Duration
}{{"an hour ahead", time.Hour}, {"an hour behind", -time.Hour}}

// TestSkew lets operators find a lease of a former leader whose clock was wrong. One of them
// becomes the leader when the lease has not been renewed for its duration.
func TestSkew(t *testing.T) {
	enter(t)
	for i, skew := range skews {
		if !*full && i > 0 {
			continue
		}
		t.Run(skew.name, func(t *testing.T) {
			tr := newTrial(t)
			defer func() { table.note(t, "clock skew", true, tr) }()
			tr.must(holdLease(t, skew.by))
			begun := time.Now()
			both := candidates(t)
			tr.begin()
			tr.create()
			tr.await(func() error {
				if both[0].wrote(begun).IsZero() && both[1].wrote(begun).IsZero() {
					return errors.New("no operator leads")
				}
				return nil
			})
			tr.measured = time.Since(tr.begun)
			tr.awaitReady()
			tr.settle()
			tr.done = time.Now()
			tr.oracles()
			if tr.measured > time.Minute { // five times the length of a lease; the clocks differ by an hour
				t.Errorf("the first write came after %s", tr.measured)
			}
			quiet(t, []*trial{tr})
		})
	}
}

// holdLease writes a lease of a former leader with a clock skew.
func holdLease(t *testing.T, skew time.Duration) error {
	now := metav1.NewMicroTime(time.Now().Add(skew))
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "goless-system", Name: "goless-operator"}}
	if err := client.IgnoreNotFound(world(t).client.Delete(t.Context(), lease)); err != nil {
		return err
	}
	lease.Spec = coordinationv1.LeaseSpec{
		HolderIdentity: new("gone"), LeaseDurationSeconds: new(int32(12)), AcquireTime: &now, RenewTime: &now,
	}
	return world(t).client.Create(t.Context(), lease)
}

// TestNoKind deletes the definition of Functions, and with it all Functions, and creates it
// again. The same operator continues.
func TestNoKind(t *testing.T) {
	enter(t)
	h := world(t)
	before, tr := newTrial(t), newTrial(t)
	defer func() { table.note(t, "definition removed", true, tr) }()
	ready(before)
	before.settle()
	definition := &unstructured.Unstructured{}
	definition.SetAPIVersion("apiextensions.k8s.io/v1")
	definition.SetKind("CustomResourceDefinition")
	definition.SetName("functions.goless.io")
	tr.must(h.client.Delete(t.Context(), definition))
	tr.await(func() error {
		switch err := h.client.Get(t.Context(), client.ObjectKeyFromObject(definition), definition); {
		case err == nil:
			return errors.New("the definition is still there")
		case !apierrors.IsNotFound(err):
			return err
		}
		return nil
	})
	tr.must(h.plane.Install(t.Context()))
	tr.must(h.renew())
	tr.begin()
	ready(tr)
	tr.settle()
	tr.done = time.Now()
	tr.oracles()
	tr.must(h.client.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: before.ns}}))
	quiet(t, []*trial{tr})
}
