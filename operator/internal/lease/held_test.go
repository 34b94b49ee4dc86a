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
	before := metav1.NewMicroTime(now.Add(-time.Minute))
	for name, test := range map[string]struct {
		spec coordinationv1.LeaseSpec
		held bool
	}{
		"held":     {coordinationv1.LeaseSpec{HolderIdentity: new("one"), LeaseDurationSeconds: new(int32(50)), RenewTime: &now}, true},
		"expired":  {coordinationv1.LeaseSpec{HolderIdentity: new("one"), LeaseDurationSeconds: new(int32(50)), RenewTime: &before}, false},
		"released": {coordinationv1.LeaseSpec{HolderIdentity: new(""), LeaseDurationSeconds: new(int32(50)), RenewTime: &now}, false},
		"empty":    {coordinationv1.LeaseSpec{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			of := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: test.spec}
			if err := cluster.Create(t.Context(), of); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { cluster.Delete(context.Background(), of) }) //nolint:errcheck // the server is of these tests alone
			testHeld(t, cluster, name, test.held)
			testHeld(t, nobody, name, false)
		})
	}
	t.Run("missing", func(t *testing.T) { testHeld(t, cluster, "missing", false) })
}

func testHeld(t *testing.T, c client.Reader, name string, want bool) {
	t.Helper()
	held, err := Held(t.Context(), c, client.ObjectKey{Namespace: "default", Name: name})
	if held != want || err != nil {
		t.Errorf("held is %t (%v), want %t", held, err, want)
	}
}
