package accesspolicy_test

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/internal/apiservertest"
	"goless.io/operator/internal/desired"
)

// The operator and the activator can scale the Deployment of a function within limits, and no other
// Deployment.
func TestAccessPolicyForScale(t *testing.T) {
	operator, namespace := operatorClient(t), apiservertest.NewNamespace(t, cluster)
	fn := sampleFunction(namespace)
	fn.Spec.Function = "package p\n" // without modules, and so without credentials
	ours := convert(t, desired.Deployment(fn, installed, "", nil), &appsv1.Deployment{})
	labels := map[string]string{desired.FunctionLabel: ours.Name} // foreign pods may have them
	theirs := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "bank", Namespace: namespace},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
			},
		},
	}
	for _, d := range []*appsv1.Deployment{ours, theirs} {
		if err := cluster.Create(t.Context(), d); err != nil {
			t.Fatal(err)
		}
	}
	activator, err := client.New(as("goless-system:goless-activator"), client.Options{Scheme: clientgoscheme.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	for name, account := range map[string]client.Client{"operator": operator, "activator": activator} {
		t.Run(name, func(t *testing.T) { checkScales(t, account, ours, theirs) })
	}
}

func checkScales(t *testing.T, account client.Client, ours, theirs *appsv1.Deployment) {
	t.Helper()
	for name, test := range map[string]struct {
		of          *appsv1.Deployment
		patch, want string // want is part of the error; empty if allowed
	}{
		"Up":       {ours, `{"spec":{"replicas":100}}`, ""},
		"Down":     {ours, `{"spec":{"replicas":0}}`, ""},
		"Beyond":   {ours, `{"spec":{"replicas":101}}`, "fence.goless.io/max-replicas, 100 of ValidatingAdmissionPolicyBinding goless-operator-deployments (deploy/40-access-policy.yaml)"},
		"Others":   {theirs, `{"spec":{"replicas":0}}`, "status.selector"},
		"Disguise": {theirs, `{"spec":{"replicas":0},"status":{"selector":"goless.io/function=bank"}}`, "status.selector"},
	} {
		err := account.SubResource("scale").Patch(t.Context(), test.of, client.RawPatch(types.MergePatchType, []byte(test.patch)),
			client.WithSubResourceBody(&autoscalingv1.Scale{}), client.DryRunAll)
		if test.want == "" {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
		} else if !rejectedByPolicy(err) || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), ".yaml") {
			t.Errorf("%s: got %v, want an error with %q and the file name", name, err, test.want)
		}
	}
}
