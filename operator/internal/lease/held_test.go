package lease

import (
	"context"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"goless.io/operator/internal/planetest"
)

var server *rest.Config

func TestMain(m *testing.M) {
	planetest.Main(m, func(m *testing.M, environment *envtest.Environment) int {
		server = environment.Config
		return m.Run()
	})
}

func TestHeld(t *testing.T) {
	cluster, err := client.New(server, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	config := rest.CopyConfig(server)
	config.Impersonate.UserName = "nobody" // who may not read them
	nobody, err := client.New(config, client.Options{Mapper: cluster.RESTMapper()})
	if err != nil {
		t.Fatal(err)
	}
	now := metav1.NowMicro()
	for name, test := range map[string]struct {
		spec  coordinationv1.LeaseSpec
		first bool // look tells that it is held
	}{
		"held":     {coordinationv1.LeaseSpec{HolderIdentity: new("one"), RenewTime: &now}, true},
		"released": {coordinationv1.LeaseSpec{HolderIdentity: new(""), RenewTime: &now}, false},
		"unheld":   {coordinationv1.LeaseSpec{RenewTime: &now}, false},
	} {
		t.Run(name, func(t *testing.T) {
			of := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: test.spec}
			if err := cluster.Create(t.Context(), of); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { cluster.Delete(context.Background(), of) }) //nolint:errcheck // the server is of these tests alone
			var w Watcher
			looks(t, &w, cluster, name, test.first)
			looks(t, &w, cluster, name, false)
			of.Spec.RenewTime = new(metav1.NewMicroTime(now.Add(-time.Hour))) // by another clock
			if err := cluster.Update(t.Context(), of); err != nil {
				t.Fatal(err)
			}
			looks(t, &w, cluster, name, test.first)
			looks(t, &Watcher{}, nobody, name, false)
		})
	}
	t.Run("missing", func(t *testing.T) { looks(t, &Watcher{}, cluster, "missing", false) })
}

func looks(t *testing.T, w *Watcher, c client.Reader, name string, want bool) {
	t.Helper()
	held, err := w.Held(t.Context(), c, client.ObjectKey{Namespace: "default", Name: name})
	if held != want || err != nil {
		t.Errorf("held is %t (%v), want %t", held, err, want)
	}
}
