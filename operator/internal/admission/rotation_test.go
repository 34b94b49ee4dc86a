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

// clean deletes the certificate and the trusted authorities.
func clean(t *testing.T) {
	t.Helper()
	if secret := secretOf(t); secret.UID != "" {
		if err := cluster.Delete(context.Background(), secret); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "no trusted authorities", func() bool {
		c := configuration(t)
		c.Webhooks[0].ClientConfig.CABundle = nil
		return cluster.Update(t.Context(), c) == nil
	})
}

// Two replicas that start without a certificate agree on one, and both serve the webhook.
func TestTwoReplicas(t *testing.T) {
	clean(t)
	one, other := start(t, settings.Settings{}), start(t, settings.Settings{})
	one.serveWebhook(t)
	made := secretOf(t)
	stopping := time.Now()
	one.stop()
	t.Logf("a replica stops within %s", time.Since(stopping).Round(time.Millisecond))
	other.serveWebhook(t)
	if !bytes.Equal(made.Data[corev1.TLSCertKey], secretOf(t).Data[corev1.TLSCertKey]) {
		t.Error("the replicas use different certificates")
	}
	if made.Type != corev1.SecretTypeTLS {
		t.Errorf("the Secret is of type %s", made.Type)
	}
	started := time.Now()
	start(t, settings.Settings{}).serveWebhook(t)
	t.Logf("a replica with an existing certificate responds after %s", time.Since(started).Round(time.Millisecond))
}

// A deleted or damaged Secret or configuration is restored.
func TestRepair(t *testing.T) {
	r := start(t, settings.Settings{})
	r.serveWebhook(t)
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
			eventually(t, "certificate trusted", func() bool {
				ca := secretOf(t).Data["ca.crt"]
				return bytes.HasPrefix(ca, []byte("-----BEGIN")) && bytes.Equal(configuration(t).Webhooks[0].ClientConfig.CABundle, ca)
			})
			waitForWebhook(t)
			t.Logf("repaired after %s", time.Since(began).Round(time.Millisecond))
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
	start(t, settings.Settings{}).serveWebhook(t)
	made = secretOf(t)
	if !bytes.Equal(configuration(t).Webhooks[0].ClientConfig.CABundle, made.Data["ca.crt"]) {
		t.Error("the authority of the certificate is not trusted")
	}
	made.Data = issued(t) // a renewal
	if err := cluster.Update(t.Context(), made); err != nil {
		t.Fatal(err)
	}
	eventually(t, "renewed certificate trusted", func() bool {
		return bytes.Equal(configuration(t).Webhooks[0].ClientConfig.CABundle, made.Data["ca.crt"])
	})
	waitForWebhook(t)
	if made.ResourceVersion != secretOf(t).ResourceVersion {
		t.Error("the Secret was changed")
	}
	clean(t)
}

// issued returns the data of a Secret that a self-signed Issuer of cert-manager creates: an ECDSA
// key, and a certificate that is its own authority.
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

// Without one of its permissions the operator logs once which one is missing, and Functions are
// stored. When it is granted, they are validated.
func TestMissingPermissions(t *testing.T) {
	for _, test := range []struct{ kind, verb, resource string }{
		{"Role", "create", "secrets"},
		{"ClusterRole", "update", "validatingwebhookconfigurations"},
	} {
		t.Run(test.verb+" "+test.resource, func(t *testing.T) {
			clean(t)
			restore := revoke(t, test.kind, test.verb, test.resource)
			r := start(t, settings.Settings{})
			r.redirect(t)
			missing := "cannot " + test.verb + ` resource \"` + test.resource + `\"`
			eventually(t, "missing permission logged", func() bool { return r.logs.count(missing) > 0 })
			if err := try(t, "probe", bad); err != nil {
				t.Errorf("creating a Function: %v", err)
			}
			restore()
			waitForWebhook(t)
			if n := r.logs.count(missing); n != 1 {
				t.Errorf("the missing permission was logged %d times", n)
			}
		})
	}
}

// revoke removes a permission of the operator until restore is called, and returns when it has
// taken effect.
func revoke(t *testing.T, kind, verb, resource string) (restore func()) {
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
		if err := cluster.Update(context.Background(), role); err != nil { // also called in a cleanup
			t.Fatal(err)
		}
		eventually(t, "permissions in effect", func() bool { return may(t, verb, resource) == allowed })
	}
	set(less, false)
	restore = sync.OnceFunc(func() { set(whole, true) })
	t.Cleanup(restore)
	return restore
}

// may reports whether the operator has a permission.
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
