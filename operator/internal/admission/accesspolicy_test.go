package admission_test

import (
	"context"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/internal/admission"
	"goless.io/operator/internal/settings"
)

// The operator's account can write only its own Secrets, and of the webhook configuration only the
// trusted authorities and the path, even if RBAC grants it everything.
func TestAccessPolicyForSecrets(t *testing.T) {
	start(t, settings.Settings{}).serveWebhook(t) // creates the Secret and the configuration
	operator := operatorClient(t)
	secret := func(namespace, name string, kind corev1.SecretType) *corev1.Secret {
		data := map[string][]byte{corev1.TLSCertKey: {}, corev1.TLSPrivateKeyKey: {}} // required for the type kubernetes.io/tls
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Type: kind, Data: data}
	}
	token := secret("goless-system", "token", corev1.SecretTypeServiceAccountToken)
	token.Annotations = map[string]string{corev1.ServiceAccountNameKey: "goless-operator"}
	disguised := token.DeepCopy()
	disguised.Name = "goless-build"
	eventually(t, "access policy in force", func() bool {
		return rejectedByPolicy(operator.Create(t.Context(), secret("default", "any", corev1.SecretTypeOpaque), client.DryRunAll))
	})
	for name, object := range map[string]client.Object{
		"another name":      secret("goless-system", "other", corev1.SecretTypeOpaque),
		"another namespace": secret("default", admission.Name, corev1.SecretTypeTLS),
		"a token":           token,
		"a disguised token": disguised,
		"another webhook":   &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "other"}},
	} {
		if err := operator.Create(t.Context(), object, client.DryRunAll); !rejectedByPolicy(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, object := range map[string]client.Object{"Secret": secretOf(t), "configuration": configuration(t)} {
		if err := operator.Delete(t.Context(), object, client.DryRunAll); !rejectedByPolicy(err) {
			t.Errorf("deleting the %s: %v", name, err)
		}
	}
	if err := operator.Create(t.Context(), secret("goless-system", "goless-build", corev1.SecretTypeOpaque), client.DryRunAll); err != nil {
		t.Errorf("the seed of the build service: %v", err)
	}
	if err := operator.Update(t.Context(), secretOf(t), client.DryRunAll); err != nil {
		t.Errorf("its own Secret: %v", err)
	}
}

func TestAccessPolicyForWebhook(t *testing.T) {
	start(t, settings.Settings{}).serveWebhook(t)
	operator := operatorClient(t)
	change := func(change func(*admissionregistrationv1.ValidatingWebhookConfiguration, *admissionregistrationv1.ValidatingWebhook)) error {
		c := configuration(t)
		change(c, &c.Webhooks[0])
		return operator.Update(t.Context(), c, client.DryRunAll)
	}
	type configuration = admissionregistrationv1.ValidatingWebhookConfiguration
	type webhook = admissionregistrationv1.ValidatingWebhook
	always := admissionregistrationv1.Fail
	exact := admissionregistrationv1.Exact
	some := admissionregistrationv1.SideEffectClassNoneOnDryRun
	eventually(t, "access policy in force", func() bool {
		return rejectedByPolicy(change(func(_ *configuration, w *webhook) { w.FailurePolicy = &always }))
	})
	for name, test := range map[string]func(*configuration, *webhook){
		"rules": func(_ *configuration, w *webhook) {
			w.Rules = append(w.Rules, admissionregistrationv1.RuleWithOperations{
				Operations: []admissionregistrationv1.OperationType{"*"},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"secrets"}},
			})
		},
		"a second one": func(c *configuration, w *webhook) {
			second := *w.DeepCopy()
			second.Name = "more.goless.io"
			c.Webhooks = append(c.Webhooks, second)
		},
		"none": func(c *configuration, _ *webhook) { c.Webhooks = nil },
		"name": func(_ *configuration, w *webhook) { w.Name = "more.goless.io" },
		"url": func(_ *configuration, w *webhook) {
			w.ClientConfig.Service, w.ClientConfig.URL = nil, new("https://evil.example")
		},
		"service":    func(_ *configuration, w *webhook) { w.ClientConfig.Service.Namespace = "evil" },
		"path":       func(_ *configuration, w *webhook) { w.ClientConfig.Service.Path = new("/evil") },
		"match":      func(_ *configuration, w *webhook) { w.MatchPolicy = &exact },
		"effects":    func(_ *configuration, w *webhook) { w.SideEffects = &some },
		"timeout":    func(_ *configuration, w *webhook) { w.TimeoutSeconds = new(int32(1)) },
		"namespaces": func(_ *configuration, w *webhook) { w.NamespaceSelector = nil },
		"objects": func(_ *configuration, w *webhook) {
			w.ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
		},
		"conditions": func(_ *configuration, w *webhook) { w.MatchConditions = nil },
		"versions":   func(_ *configuration, w *webhook) { w.AdmissionReviewVersions = []string{"v1", "v1beta1"} },
		"finalizers": func(c *configuration, _ *webhook) { c.Finalizers = []string{"example.com/stay"} },
		"owners": func(c *configuration, _ *webhook) {
			c.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Namespace", Name: "default", UID: "1"}}
		},
	} {
		if err := change(test); !rejectedByPolicy(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := change(func(_ *configuration, w *webhook) { w.ClientConfig.CABundle = nil }); err != nil {
		t.Errorf("changing the trusted authorities: %v", err)
	}
	if err := change(func(_ *configuration, w *webhook) { w.ClientConfig.Service.Path = new("/functions/other") }); err != nil {
		t.Errorf("changing the path: %v", err)
	}
}

// operatorClient returns a client of the operator's account, with additional permissions.
func operatorClient(t *testing.T) client.Client {
	t.Helper()
	all := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{GenerateName: "operator-"}, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{"", "admissionregistration.k8s.io"}, Resources: []string{"secrets", "validatingwebhookconfigurations"}, Verbs: []string{"*"},
	}}}
	if err := cluster.Create(t.Context(), all); err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: all.Name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: all.Name},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "goless-system", Name: "goless-operator"}},
	}
	if err := cluster.Create(t.Context(), binding); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, object := range []client.Object{binding, all} {
			if err := cluster.Delete(context.Background(), object); err != nil {
				t.Error(err)
			}
		}
	})
	config := rest.CopyConfig(server)
	config.Impersonate.UserName = operatorAccount
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func rejectedByPolicy(err error) bool {
	return err != nil && strings.Contains(err.Error(), "ValidatingAdmissionPolicy 'goless-operator-own'")
}
