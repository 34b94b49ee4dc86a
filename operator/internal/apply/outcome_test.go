package apply

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The message suggests deleting an object only if no controller would create it again.
func TestNotOwned(t *testing.T) {
	for _, test := range []struct {
		err  notOwnedError
		want string
	}{
		{
			notOwnedError{kind: "Deployment", namespace: "shop", name: "orders", owner: &metav1.OwnerReference{Kind: "NATSTrigger", Name: "orders", Controller: new(true)}},
			`Deployment "orders" belongs to NATSTrigger "orders" and is not changed; rename the Function`,
		},
		{
			notOwnedError{kind: "Service", namespace: "shop", name: "orders-lag", owner: &metav1.OwnerReference{Kind: "NATSTrigger", Name: "orders", Controller: new(true)}},
			`Service "orders-lag" belongs to NATSTrigger "orders" and is not changed; set another name in spec.service`,
		},
		{
			notOwnedError{kind: "Deployment", namespace: "shop", name: "orders", owner: &metav1.OwnerReference{Kind: "ConfigMap", Name: "app"}},
			`Deployment "orders" belongs to ConfigMap "app" and is not changed;` +
				` delete it if it is not needed (kubectl -n shop delete deployment orders), or rename the Function`,
		},
		{
			notOwnedError{kind: "Deployment", namespace: "shop", name: "orders"},
			`Deployment "orders" was not created for this Function by its operator and is not changed;` +
				` delete it if it is not needed (kubectl -n shop delete deployment orders), or rename the Function`,
		},
	} {
		if got := test.err.Error(); got != test.want {
			t.Errorf("got %q, want %q", got, test.want)
		}
	}
}
