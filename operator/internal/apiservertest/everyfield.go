package apiservertest

import (
	"context"
	"errors"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
)

// account is the ServiceAccount of EveryField.
const account = "every-field"

// AllowRunAs allows functions in all namespaces to run as the ServiceAccount of EveryField.
func AllowRunAs(ctx context.Context, cluster client.Client) error {
	name := metav1.ObjectMeta{Name: "run-functions-as-" + account}
	return errors.Join(
		cluster.Create(ctx, &rbacv1.ClusterRole{ObjectMeta: name, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"serviceaccounts"}, ResourceNames: []string{account}, Verbs: []string{"run-functions-as"}},
		}}),
		cluster.Create(ctx, &rbacv1.ClusterRoleBinding{
			ObjectMeta: name,
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name.Name},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "goless-system", Name: "goless-operator"}},
		}))
}

// EveryField sets those optional fields of a Function that the API server stores in a different
// form or omits, and most others.
func EveryField(fn *v1beta1.Function) {
	fn.Labels = map[string]string{"pod.goless.io/team": "blue"}
	fn.Annotations = map[string]string{"pod.goless.io/note": "", "goless.io/upgrade": "1"}
	fn.Spec.Env = []v1beta1.EnvVar{
		{Name: "Z", Value: "last in the alphabet"},
		{Name: "A", Value: "$(Z)"},
		{Name: "EMPTY"},
		{Name: "LOG_LEVEL", Value: "debug"},
		{Name: "C", ValueFrom: &v1beta1.EnvVarSource{ConfigMapKeyRef: &v1beta1.KeyRef{Name: "c", Key: "k", Optional: new(false)}}},
		{Name: "S", ValueFrom: &v1beta1.EnvVarSource{SecretKeyRef: &v1beta1.KeyRef{Name: "s", Key: "k"}}},
		{Name: "F", ValueFrom: &v1beta1.EnvVarSource{FieldRef: &v1beta1.FieldRef{FieldPath: "status.podIP"}}},
	}
	fn.Spec.EnvFrom = []v1beta1.EnvFromSource{
		{ConfigMapRef: &v1beta1.ObjectRef{Name: "c", Optional: new(true)}},
		{Prefix: "P_", SecretRef: &v1beta1.ObjectRef{Name: "s"}},
	}
	fn.Spec.Files = []v1beta1.File{
		{Name: "settings", ConfigMap: &v1beta1.FileSource{Name: "c", Optional: new(false)}},
		{Name: "tls", Secret: &v1beta1.FileSource{Name: "s", Keys: []string{"tls.key", "tls.crt"}, Optional: new(true)}},
	}
	fn.Spec.Scratch = &v1beta1.Scratch{Size: resource.MustParse("1024000.5Ki"), Medium: v1beta1.ScratchInMemory}
	fn.Spec.ServiceAccountName = account
	fn.Spec.ServiceAccountToken = &v1beta1.ServiceAccountToken{Audience: "vault", ExpirationSeconds: 600}
	fn.Spec.Resources = &v1beta1.Resources{
		Requests: v1beta1.Amounts{CPU: new(resource.MustParse("0.0001")), Memory: new(resource.MustParse("1024Mi"))},
		Limits:   v1beta1.Amounts{CPU: new(resource.MustParse("1000m")), Memory: new(resource.MustParse("1.5Gi"))},
	}
	fn.Spec.Timeout = &metav1.Duration{Duration: 1500 * time.Millisecond}
	fn.Spec.Concurrency = 7
	fn.Spec.DrainSeconds, fn.Spec.ProgressDeadlineSeconds = new(int32(0)), new(int32(60))
	fn.Spec.Rollout = &v1beta1.Rollout{Verify: &v1beta1.Verify{For: &metav1.Duration{Duration: 90 * time.Second}, MaxErrors: "2.5%", MinRequests: new(int32(50))}}
	fn.Spec.AppProtocol = "kubernetes.io/h2c"
	fn.Spec.Replicas = new(int32(2))
	fn.Spec.Build = &v1beta1.BuildSpec{
		Resources: &v1beta1.Resources{Limits: v1beta1.Amounts{Memory: new(resource.MustParse("1Gi"))}},
		Timeout:   &metav1.Duration{Duration: 90 * time.Second},
	}
}
