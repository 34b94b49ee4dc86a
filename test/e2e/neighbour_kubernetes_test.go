package e2e

import (
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
)

// The cluster runs the oldest version of Kubernetes that Goless supports, which knows all fields of
// the objects in deploy/. The file tests of the neighbour lists the tests that run there.
func TestNeighbourKubernetes130(t *testing.T) {
	version, err := kube.Discovery().ServerVersion()
	if err != nil {
		t.Fatal(err)
	}
	if version.Minor != "30" {
		t.Fatalf("the cluster runs Kubernetes %s: start it with KUBERNETES=1.30", version)
	}
	// The API server evaluates fields that it does not know as unset, and warns.
	var policies admissionv1.ValidatingAdmissionPolicyList
	if err := cluster.List(t.Context(), &policies); err != nil {
		t.Fatal(err)
	}
	for _, policy := range policies.Items {
		if policy.Status.TypeChecking == nil {
			continue
		}
		for _, warning := range policy.Status.TypeChecking.ExpressionWarnings {
			t.Logf("%s, %s: %s", policy.Name, warning.FieldRef, warning.Warning)
		}
	}
	seen(t, "Functions of all kinds, updates, sleep, classes, the access policy and all triggers work.")
}
