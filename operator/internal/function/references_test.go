package function_test

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/apiservertest"
	"goless.io/operator/internal/desired"
)

// The function is rolled out when a ConfigMap value in its environment changes, and not for other
// changes to the ConfigMap.
func TestReferencedConfigMaps(t *testing.T) {
	fn := create(t, "refers", func(fn *v1beta1.Function) {
		fn.Spec.Env = []v1beta1.EnvVar{{Name: "LEVEL", ValueFrom: &v1beta1.EnvVarSource{ConfigMapKeyRef: &v1beta1.KeyRef{Name: "one", Key: "level"}}}}
		fn.Spec.EnvFrom = []v1beta1.EnvFromSource{{ConfigMapRef: &v1beta1.ObjectRef{Name: "all", Optional: new(true)}}}
	})
	seen := values(t, fn, "")
	one := configMap(t, fn, "one", map[string]string{"level": "info", "other": "x"})
	seen = values(t, fn, seen)
	all := configMap(t, fn, "all", map[string]string{"A": "1"})
	seen = values(t, fn, seen)

	all.Data["A"] = "2"
	overwrite(t, all)
	seen = values(t, fn, seen)
	one.Data["level"] = "debug"
	overwrite(t, one)
	seen = values(t, fn, seen)
	if err := cluster.Delete(t.Context(), all); err != nil {
		t.Fatal(err)
	}
	values(t, fn, seen)
}

// The function is rolled out when a ConfigMap key in its files changes, also with binary data.
// Changes to other keys and to Secrets do not cause a rollout.
func TestReferencedFiles(t *testing.T) {
	fn := create(t, "files", func(fn *v1beta1.Function) {
		fn.Spec.Files = []v1beta1.File{
			{Name: "all", ConfigMap: &v1beta1.FileSource{Name: "all", Optional: new(true)}},
			{Name: "one", ConfigMap: &v1beta1.FileSource{Name: "one", Keys: []string{"level"}}},
			{Name: "tls", Secret: &v1beta1.FileSource{Name: "s"}},
		}
	})
	seen := values(t, fn, "")
	one := configMap(t, fn, "one", map[string]string{"level": "info", "other": "x"})
	seen = values(t, fn, seen)
	all := configMap(t, fn, "all", map[string]string{"A": "1"})
	seen = values(t, fn, seen)
	all.BinaryData = map[string][]byte{"b": {0xff}}
	overwrite(t, all)
	seen = values(t, fn, seen)

	// Only the last of these changes causes a rollout.
	one.Data["other"] = "y"
	overwrite(t, one)
	if err := cluster.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s", Namespace: fn.Namespace}}); err != nil {
		t.Fatal(err)
	}
	all.BinaryData["b"] = []byte{0xfe}
	overwrite(t, all)
	seen = values(t, fn, seen)
	one.Data["level"] = "debug"
	overwrite(t, one)
	values(t, fn, seen)
}

// Frequent changes to a ConfigMap are combined into few rollouts, and the last value is rolled out.
func TestFlappingConfigMap(t *testing.T) {
	fn := create(t, "flaps", func(fn *v1beta1.Function) {
		fn.Spec.EnvFrom = []v1beta1.EnvFromSource{{ConfigMapRef: &v1beta1.ObjectRef{Name: "all", Optional: new(true)}}}
	})
	before := values(t, fn, "")
	began := time.Now()
	all := configMap(t, fn, "all", map[string]string{"A": "0"})
	values(t, fn, before)
	for i := range 40 {
		all.Data["A"] = strconv.Itoa(i)
		overwrite(t, all)
	}
	all.Data = map[string]string{"A": "last"}
	overwrite(t, all)
	want := desired.Digest([]string{desired.Digest(all.Data)})
	deployment := await(t, fn, fn.Name, &appsv1.Deployment{}, func(d *appsv1.Deployment) bool {
		return d.Spec.Template.Annotations[desired.ValuesAnnotation] == want
	})
	// The first two generations are those before and after the ConfigMap was created. Each pause
	// may end with one more.
	most := 3 + int64(time.Since(began)/configured.ReferencePause.Duration)
	if deployment.Generation > most {
		t.Errorf("42 changes caused %d generations of the Deployment, want at most %d", deployment.Generation, most)
	}
	t.Logf("42 changes caused %d generations of the Deployment in %s", deployment.Generation, time.Since(began))
}

// By default the operator does not read Secrets. With the permission to read them, it rolls out
// their changes.
func TestReferencedSecrets(t *testing.T) {
	fn := create(t, "secretive", func(fn *v1beta1.Function) {
		fn.Spec.EnvFrom = []v1beta1.EnvFromSource{{SecretRef: &v1beta1.ObjectRef{Name: "all", Optional: new(true)}}}
		fn.Spec.Env = []v1beta1.EnvVar{{Name: "A", ValueFrom: &v1beta1.EnvVarSource{SecretKeyRef: &v1beta1.KeyRef{Name: "s", Key: "a"}}}}
	})
	deployment := await(t, fn, fn.Name, &appsv1.Deployment{}, ownedByApply)
	if got := deployment.Spec.Template.Annotations[desired.ValuesAnnotation]; got != "" {
		t.Errorf("unexpected hash of a Secret: %s", got)
	}
	for _, request := range writes.reads() {
		if strings.Contains(request, "/namespaces/"+fn.Namespace+"/secrets") || strings.HasSuffix(request, "/v1/secrets") {
			t.Errorf("the operator has read Secrets: %s", request)
		}
	}

	if err := apiservertest.Install(t.Context(), cluster, nil, "optional/secrets.yaml"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // other tests run without these permissions
		cluster.Delete(context.Background(), &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "goless-operator-secrets"}}) //nolint:errcheck // what is left shows in the tests of rights
	})
	settings := configured
	settings.WatchSecrets = true
	settings.Namespaces = []string{fn.Namespace}
	log := &writeLog{}
	exchangeOperator(t, settings, log)
	seen := values(t, fn, "")
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s", Namespace: fn.Namespace}, StringData: map[string]string{"a": "b"}}
	if err := cluster.Create(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	seen = values(t, fn, seen)
	all := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "all", Namespace: fn.Namespace}, Data: map[string][]byte{"binary": {0xff}}}
	if err := cluster.Create(t.Context(), all); err != nil {
		t.Fatal(err)
	}
	seen = values(t, fn, seen)

	// Changes to a label and to a key that is not referenced are read and do not cause a rollout.
	deployment = await(t, fn, fn.Name, &appsv1.Deployment{}, nil)
	read := func() (n int) {
		for _, request := range log.reads() {
			if strings.HasSuffix(request, "/secrets/s") {
				n++
			}
		}
		return n
	}
	reads := read()
	secret.Labels, secret.StringData = map[string]string{"rotated": "no"}, map[string]string{"other": "c"}
	overwrite(t, secret)
	eventually(t, "operator reads the Secret again", func() bool { return read() > reads })
	looks := reconciles(t)
	metav1.SetMetaDataAnnotation(&deployment.ObjectMeta, "somebody", "looks")
	overwrite(t, deployment)
	eventually(t, "operator reconciles again", func() bool { return reconciles(t) > looks })
	if got := values(t, fn, ""); got != seen {
		t.Error("a label of a Secret caused a rollout")
	}

	secret.StringData = map[string]string{"a": "c"}
	overwrite(t, secret)
	seen = values(t, fn, seen)
	all.Data["binary"] = []byte{0xfe}
	overwrite(t, all)
	values(t, fn, seen)
}

// values waits until the hash of the values in the pod template differs from before, and returns
// it.
func values(t *testing.T, fn *v1beta1.Function, before string) string {
	t.Helper()
	var now string
	await(t, fn, fn.Name, &appsv1.Deployment{}, func(d *appsv1.Deployment) bool {
		now = d.Spec.Template.Annotations[desired.ValuesAnnotation]
		return now != before
	})
	return now
}

func configMap(t *testing.T, fn *v1beta1.Function, name string, data map[string]string) *corev1.ConfigMap {
	t.Helper()
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: fn.Namespace}, Data: data}
	if err := cluster.Create(t.Context(), object, client.FieldOwner("somebody")); err != nil {
		t.Fatal(err)
	}
	return object
}
