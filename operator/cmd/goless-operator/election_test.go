package main

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"goless.io/operator/internal/leaderguard"
)

// A client-go leader can write while it holds the lease, with JSON and protobuf, and not after it
// has released it.
func TestGuardOfElection(t *testing.T) {
	for name, encoding := range map[string]string{"json": runtime.ContentTypeJSON, "protobuf": runtime.ContentTypeProtobuf} {
		t.Run(name, func(t *testing.T) {
			config := rest.CopyConfig(environment.Config)
			config.ContentType = encoding
			config.Wrap(leaderguard.NewGuard("guarded-"+name, 9*time.Second).Wrap)
			cluster, err := kubernetes.NewForConfig(config)
			if err != nil {
				t.Fatal(err)
			}
			write := func() error {
				object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "written-", Namespace: "default"}}
				_, err := cluster.CoreV1().ConfigMaps("default").Create(context.Background(), object, metav1.CreateOptions{})
				return err
			}
			if err := write(); !errors.Is(err, leaderguard.ErrExpired) {
				t.Errorf("a candidate can write: %v", err)
			}
			release := lead(t, cluster, "guarded-"+name)
			if err := write(); err != nil {
				t.Errorf("the leader cannot write: %v", err)
			}
			release()
			if err := write(); !errors.Is(err, leaderguard.ErrExpired) {
				t.Errorf("a former leader can write: %v", err)
			}
		})
	}
}

// lead acquires a lease. The function that it returns releases the lease.
func lead(t *testing.T, cluster kubernetes.Interface, name string) (release func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	led := make(chan struct{})
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Client: cluster.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: "one"},
		},
		LeaseDuration: 12 * time.Second, RenewDeadline: 9 * time.Second, RetryPeriod: time.Second, ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { close(led) }, OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { defer close(ended); elector.Run(ctx) }()
	<-led
	release = sync.OnceFunc(func() {
		cancel()
		<-ended
		held, err := cluster.CoordinationV1().Leases("default").Get(context.Background(), name, metav1.GetOptions{})
		if err != nil || held.Spec.HolderIdentity == nil || *held.Spec.HolderIdentity != "" {
			t.Errorf("the lease was not released: %v, %v", held, err)
		}
	})
	t.Cleanup(release)
	return release
}
