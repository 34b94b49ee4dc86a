package admission_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/pem"
	"slices"
	"sync"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/internal/admission"
	"goless.io/operator/internal/settings"
)

// clean takes the certificate away, and what is trusted for it.
func clean(t *testing.T) {
	t.Helper()
	if secret := secretOf(t); secret.UID != "" {
		if err := cluster.Delete(context.Background(), secret); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "nothing is trusted", func() bool {
		c := configuration(t)
		c.Webhooks[0].ClientConfig.CABundle = nil
		return cluster.Update(t.Context(), c) == nil
	})
}

// Two replicas that start without a certificate agree on one, and each of them
// answers, the leader or not.
func TestTwoReplicas(t *testing.T) {
	clean(t)
	one, other := start(t, settings.Settings{}), start(t, settings.Settings{})
	one.ask(t)
	made := secretOf(t)
	stopping := time.Now()
	one.stop()
	t.Logf("a replica that is asked ends within %s", time.Since(stopping).Round(time.Millisecond))
	other.ask(t)
	if !bytes.Equal(made.Data[corev1.TLSCertKey], secretOf(t).Data[corev1.TLSCertKey]) {
		t.Error("the replicas have not agreed on a certificate")
	}
	if made.Type != corev1.SecretTypeTLS {
		t.Errorf("the Secret is of type %s", made.Type)
	}
	started := time.Now()
	start(t, settings.Settings{}).ask(t)
	t.Logf("a replica that finds a certificate answers after %s", time.Since(started).Round(time.Millisecond))
}

// Whatever somebody does to them comes back.
func TestHealing(t *testing.T) {
	r := start(t, settings.Settings{})
	r.ask(t)
	for name, damage := range map[string]func(*testing.T){
		"SecretGone": func(t *testing.T) {
			if err := cluster.Delete(t.Context(), secretOf(t)); err != nil {
				t.Fatal(err)
			}
		},
		"SecretEmpty": func(t *testing.T) {
			damage(t, func(s *corev1.Secret) {
				s.Data[corev1.TLSCertKey], s.Data[corev1.TLSPrivateKeyKey] = []byte{}, []byte{}
			})
		},
		"SecretGarbage": func(t *testing.T) { damage(t, func(s *corev1.Secret) { s.Data["ca.crt"] = []byte("nothing") }) },
		"NotTrusted": func(t *testing.T) {
			c := configuration(t)
			c.Webhooks[0].ClientConfig.CABundle = nil
			if err := cluster.Update(t.Context(), c); err != nil {
				t.Fatal(err)
			}
		},
		"ConfigurationReplaced": func(t *testing.T) {
			c := configuration(t)
			if err := cluster.Delete(t.Context(), c); err != nil {
				t.Fatal(err)
			}
			c.UID, c.ResourceVersion, c.Webhooks[0].ClientConfig.CABundle = "", "", nil
			if err := cluster.Create(t.Context(), c); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			damage(t)
			began := time.Now()
			eventually(t, "the certificate is trusted", func() bool {
				ca := secretOf(t).Data["ca.crt"]
				return bytes.HasPrefix(ca, []byte("-----BEGIN")) && bytes.Equal(configuration(t).Webhooks[0].ClientConfig.CABundle, ca)
			})
			awaitWork(t)
			t.Logf("mended after %s", time.Since(began).Round(time.Millisecond))
		})
	}
}

func damage(t *testing.T, change func(*corev1.Secret)) {
	t.Helper()
	secret := secretOf(t)
	change(secret)
	if err := cluster.Update(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
}

// A Secret of cert-manager is served and trusted, and never written.
func TestCertManager(t *testing.T) {
	clean(t)
	made := &corev1.Secret{Type: corev1.SecretTypeTLS, Data: issued(t)}
	made.Namespace, made.Name = "goless-system", admission.Name
	made.Annotations = map[string]string{"cert-manager.io/certificate-name": admission.Name}
	if err := cluster.Create(t.Context(), made); err != nil {
		t.Fatal(err)
	}
	start(t, settings.Settings{}).ask(t)
	made = secretOf(t)
	if !bytes.Equal(configuration(t).Webhooks[0].ClientConfig.CABundle, made.Data["ca.crt"]) {
		t.Error("its authority is not trusted")
	}
	made.Data = issued(t) // as it renews it
	if err := cluster.Update(t.Context(), made); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the renewed one is trusted", func() bool {
		return bytes.Equal(configuration(t).Webhooks[0].ClientConfig.CABundle, made.Data["ca.crt"])
	})
	awaitWork(t)
	if made.ResourceVersion != secretOf(t).ResourceVersion {
		t.Error("somebody else has written the Secret")
	}
	clean(t)
}

// issued is what a self-signed Issuer of cert-manager puts into a Secret: with a
// key of another kind, and of a certificate that is its own authority.
func issued(t *testing.T) map[string][]byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := cert.NewSelfSignedCACert(cert.Config{CommonName: admission.Name + ".goless-system.svc"}, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		t.Fatal(err)
	}
	public := pem.EncodeToMemory(&pem.Block{Type: cert.CertificateBlockType, Bytes: signed.Raw})
	return map[string][]byte{corev1.TLSCertKey: public, corev1.TLSPrivateKeyKey: private, "ca.crt": public}
}

// Without one of its rights the operator says which, once, and Functions can be
// applied; when it has the right again, they are judged.
func TestMissingRights(t *testing.T) {
	for _, test := range []struct{ kind, verb, resource string }{
		{"Role", "create", "secrets"},
		{"ClusterRole", "update", "validatingwebhookconfigurations"},
	} {
		t.Run(test.verb+" "+test.resource, func(t *testing.T) {
			clean(t)
			restore := take(t, test.kind, test.verb, test.resource)
			r := start(t, settings.Settings{})
			r.redirect(t)
			missing := "cannot " + test.verb + ` resource \"` + test.resource + `\"`
			eventually(t, "the log says what is missing", func() bool { return r.logs.count(missing) > 0 })
			if err := try(t, "probe", bad); err != nil {
				t.Errorf("a Function cannot be applied: %v", err)
			}
			restore()
			awaitWork(t)
			if n := r.logs.count(missing); n != 1 {
				t.Errorf("it was said %d times", n)
			}
		})
	}
}

// take takes a right from the operator until restore is called, and returns when
// the API server knows.
func take(t *testing.T, kind, verb, resource string) (restore func()) {
	t.Helper()
	role := &unstructured.Unstructured{}
	role.SetGroupVersionKind(rbacv1.SchemeGroupVersion.WithKind(kind))
	key := client.ObjectKey{Name: admission.Name}
	if kind == "Role" {
		key.Namespace = "goless-system"
	}
	if err := cluster.Get(t.Context(), key, role); err != nil {
		t.Fatal(err)
	}
	whole, _, err := unstructured.NestedSlice(role.Object, "rules")
	if err != nil {
		t.Fatal(err)
	}
	less := runtime.DeepCopyJSONValue(whole).([]any)
	for _, rule := range less {
		verbs := rule.(map[string]any)["verbs"].([]any)
		rule.(map[string]any)["verbs"] = slices.DeleteFunc(verbs, func(v any) bool { return v == verb && len(verbs) > 1 })
	}
	if verb == "create" { // the only verb of its rule
		less = less[1:]
	}
	set := func(rules []any, allowed bool) {
		role.Object["rules"] = rules
		if err := cluster.Update(context.Background(), role); err != nil { // in a clean-up too
			t.Fatal(err)
		}
		eventually(t, "the API server knows the rights", func() bool { return may(t, verb, resource) == allowed })
	}
	set(less, false)
	restore = sync.OnceFunc(func() { set(whole, true) })
	t.Cleanup(restore)
	return restore
}

// may asks the API server what the operator is allowed to.
func may(t *testing.T, verb, resource string) bool {
	t.Helper()
	asked := &authorizationv1.ResourceAttributes{Verb: verb, Resource: resource, Namespace: "goless-system", Name: admission.Name}
	if verb == "create" {
		asked.Name = ""
	}
	if resource != "secrets" {
		asked.Group, asked.Namespace = "admissionregistration.k8s.io", ""
	}
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: operatorAccount, ResourceAttributes: asked}}
	if err := cluster.Create(context.Background(), review); err != nil {
		t.Fatal(err)
	}
	return review.Status.Allowed
}
