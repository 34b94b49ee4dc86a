package accesspolicy_test

import (
	"bytes"
	"context"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/accesspolicy"
	"goless.io/operator/internal/apiservertest"
	"goless.io/operator/internal/settings"
)

var (
	plane *envtest.Environment

	// cluster is a client with all permissions.
	cluster client.Client
)

func TestMain(m *testing.M) {
	// These tests mostly wait until a policy takes effect, so run more of them in parallel than
	// there are CPUs.
	if err := flag.Set("test.parallel", "10"); err != nil {
		panic(err)
	}
	apiservertest.Main(m, func(m *testing.M, environment *envtest.Environment) int {
		plane = environment
		var err error
		if cluster, err = client.New(plane.Config, client.Options{Scheme: clientgoscheme.Scheme}); err != nil {
			panic(err)
		}
		if err = apiservertest.AllowRunAs(context.Background(), cluster); err != nil {
			panic(err)
		}
		return m.Run()
	})
}

var installed = settings.Settings{Images: settings.Images{Builder: "example/builder:1", Function: "example/launch:1"}}

// as returns the config of a service account.
func as(account string) *rest.Config {
	config := rest.CopyConfig(plane.Config)
	config.Impersonate.UserName = "system:serviceaccount:" + account
	return config
}

func kubectl(t *testing.T, input []byte, args ...string) []byte {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, plane.KubeConfig, 0o600); err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), plane.ControlPlane.KubectlPath, append(args, "--kubeconfig="+file)...)
	command.Stdin = bytes.NewReader(input)
	var complaints strings.Builder
	command.Stderr = &complaints
	out, err := command.Output()
	if err != nil {
		t.Fatalf("kubectl %v: %v\n%s", args, err, complaints.String())
	}
	return out
}

// deployed returns a directory with the files of deploy/, with the images that ko would set.
func deployed(t *testing.T) (dir string, files []string) {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(apiservertest.Root, "deploy", "*.yaml"))
	if err != nil || len(all) == 0 {
		t.Fatal("no files in deploy/", err)
	}
	dir = t.TempDir()
	for _, from := range all {
		text, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		text = bytes.ReplaceAll(text, []byte("ko://goless.io/builder/cmd/builder"), []byte(installed.Images.Builder))
		text = bytes.ReplaceAll(text, []byte("ko://goless.io/runtime/cmd/launch"), []byte(installed.Images.Function))
		files = append(files, filepath.Base(from))
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(from)), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir, files
}

// byKustomize renders deploy/ for a namespace with kubectl kustomize and the patch in
// 00-namespace.yaml.
func byKustomize(t *testing.T, namespace string) []byte {
	t.Helper()
	dir, files := deployed(t)
	text := "namespace: " + namespace + "\nresources: [" + strings.Join(files, ", ") + `]
patches:
  - target: {kind: FlowSchema}
    patch: '[{"op": "replace", "path": "/spec/rules/0/subjects/0/serviceAccount/namespace", "value": "` + namespace + `"}]'
`
	if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return kubectl(t, nil, "kustomize", dir)
}

// bySed renders deploy/ for a namespace with sed s/goless-system/NAMESPACE/.
func bySed(t *testing.T, namespace string) []byte {
	t.Helper()
	dir, files := deployed(t)
	var all []byte
	for _, file := range files {
		text, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			t.Fatal(err)
		}
		all = append(append(all, "\n---\n"...), bytes.ReplaceAll(text, []byte("goless-system"), []byte(namespace))...)
	}
	return all
}

// installation is the namespace in which Goless is currently installed.
var installation string

// operatorClient returns a client of the operator's account, as an attacker with its token has.
// Goless is installed from deploy/, and the access policy is in force.
func operatorClient(t *testing.T) client.Client {
	t.Helper()
	const usual = "goless-system"
	if installation != usual {
		kubectl(t, bySed(t, usual), "apply", "-f", "-")
		installation = usual
	}
	operator, err := client.New(as(usual+":goless-operator"), client.Options{Scheme: clientgoscheme.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	orphan := forged(t, sampleFunction("default"), func(d *appsv1.Deployment) { d.OwnerReferences = nil })
	eventually(t, "access policy in force", func() bool {
		return rejectedByPolicy(operator.Create(t.Context(), orphan.DeepCopy(), client.DryRunAll))
	})
	return operator
}

var eventually = apiservertest.Eventually

// An installation in another namespace has the same permissions and access policies.
func TestRelocated(t *testing.T) {
	for _, test := range []struct { // the second replaces the first
		namespace string
		render    func(*testing.T, string) []byte
	}{{"by-kustomize", byKustomize}, {"by-sed", bySed}} {
		t.Run(test.namespace, func(t *testing.T) {
			rendered := test.render(t, test.namespace)
			for line := range strings.Lines(string(rendered)) {
				if strings.Contains(line, "goless-system") && !strings.Contains(line, "#") {
					t.Errorf("the rendered manifests refer to goless-system: %s", line)
				}
			}
			kubectl(t, rendered, "apply", "-f", "-")
			installation = test.namespace
			checkInstallation(t, test.namespace)
		})
	}
	t.Run("wrong", checkErrors)
}

// checkInstallation checks the permissions and access policies of an installation.
func checkInstallation(t *testing.T, namespace string) {
	t.Helper()
	account := as(namespace + ":goless-operator")
	assigned := installed
	assigned.PodUser = settings.PodUserCluster
	for _, s := range []settings.Settings{installed, assigned} {
		if known, err := checker(t, account, s, namespace, time.Minute).Check(t.Context()); !known || err != nil {
			t.Errorf("known: %t, %v", known, err)
		}
	}
	c, err := client.New(account, client.Options{Scheme: clientgoscheme.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []authorizationv1.ResourceAttributes{
		{Namespace: "default", Verb: "create", Group: "apps", Resource: "deployments"},
		{Namespace: namespace, Verb: "update", Group: "coordination.k8s.io", Resource: "leases", Name: "goless-operator"},
		{Namespace: namespace, Verb: "get", Resource: "secrets", Name: "goless-build"},
	} {
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &want}}
		if err := c.Create(t.Context(), review); err != nil || !review.Status.Allowed {
			t.Errorf("%v: %+v %v", want, review.Status, err)
		}
	}
	seed := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "goless-build"}, Type: corev1.SecretTypeOpaque}
	certificate := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "goless-webhook"}, Type: corev1.SecretTypeTLS,
		Data: map[string][]byte{corev1.TLSCertKey: {}, corev1.TLSPrivateKeyKey: {}},
	}
	for _, secret := range []*corev1.Secret{seed, certificate} {
		if err := c.Create(t.Context(), secret, client.DryRunAll); err != nil {
			t.Error(err)
		}
	}
}

func checker(t *testing.T, config *rest.Config, s settings.Settings, namespace string, timeout time.Duration) *accesspolicy.Checker {
	t.Helper()
	c, err := accesspolicy.New(config, s, namespace)
	if err != nil {
		t.Fatal(err)
	}
	c.Timeout, c.Interval = timeout, 100*time.Millisecond
	return c
}

// If a webhook of another project is unavailable, the result is unknown and the operator starts.
// When the webhook is deleted, Start reports the result.
func TestWebhookUnavailable(t *testing.T) {
	operatorClient(t)
	const namespace = "meshed"
	fails := admissionregistrationv1.Fail
	none := admissionregistrationv1.SideEffectClassNone
	webhook := &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: namespace},
		Webhooks: []admissionregistrationv1.MutatingWebhook{{
			Name: "inject.example.com", FailurePolicy: &fails, SideEffects: &none, AdmissionReviewVersions: []string{"v1"},
			ClientConfig:      admissionregistrationv1.WebhookClientConfig{URL: new("https://127.0.0.1:1/")},
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: namespace}},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{"deployments"}},
			}},
		}},
	}
	for _, object := range []client.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, webhook} {
		if err := cluster.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	// The policy does not apply to the account of the second Checker. It is reported when the
	// webhook is deleted.
	covered := checker(t, as("goless-system:goless-operator"), installed, namespace, time.Minute)
	foreign := checker(t, plane.Config, installed, namespace, time.Millisecond)
	for _, c := range []*accesspolicy.Checker{covered, foreign} {
		eventually(t, "webhook called", func() bool {
			known, err := c.Check(t.Context())
			return !known && err == nil
		})
	}
	ended := make(chan error, 1)
	go func() { ended <- covered.Start(t.Context()) }()
	select {
	case err := <-ended:
		t.Errorf("Start returned without a result: %v", err)
	default:
	}
	if err := cluster.Delete(t.Context(), webhook); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if err := foreign.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "does not cover the operator's account") {
		t.Errorf("account that the policy does not cover: %v", err)
	}
}

// The policy of a release before functions had tests does not restrict Jobs, and is reported.
func TestFormerPolicy(t *testing.T) {
	operatorClient(t)
	former := &admissionregistrationv1.ValidatingAdmissionPolicy{}
	if err := cluster.Get(t.Context(), client.ObjectKey{Name: "goless-operator-deployments"}, former); err != nil {
		t.Fatal(err)
	}
	change := func(ctx context.Context, edit func(*admissionregistrationv1.MatchResources)) {
		before := client.MergeFrom(former.DeepCopy())
		edit(former.Spec.MatchConstraints)
		if err := cluster.Patch(ctx, former, before); err != nil {
			t.Error(err)
		}
	}
	rules := former.Spec.MatchConstraints.ResourceRules
	change(t.Context(), func(m *admissionregistrationv1.MatchResources) { m.ResourceRules = rules[:1] })
	t.Cleanup(func() {
		change(context.Background(), func(m *admissionregistrationv1.MatchResources) { m.ResourceRules = rules })
	})
	namespace := apiservertest.NewNamespace(t, cluster)
	eventually(t, "the former policy is reported", func() bool {
		_, err := checker(t, as("goless-system:goless-operator"), installed, namespace, time.Millisecond).Check(t.Context())
		return err != nil && strings.Contains(err.Error(), "a Job without a Function is allowed in namespace "+namespace)
	})
}

// checkErrors checks that an account with another name, and settings that the access policy does
// not allow, result in an error with instructions.
func checkErrors(t *testing.T) {
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "renamed"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "goless-operator"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "by-sed", Name: "renamed"}},
	}
	if err := cluster.Create(t.Context(), binding); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Delete(context.Background(), binding); err != nil {
			t.Error(err)
		}
	})
	netrc, prefixes, images, replicas, cpu, memory, storage := installed, installed, installed, installed, installed, installed, installed
	netrc.Build.Modules.Netrc = v1beta1.KeyOf{Name: "modules", Key: "netrc"}
	prefixes.PodMetadataPrefixes = []string{"linkerd.io/"}
	images.Images.Builder = "elsewhere.example/builder:1"
	replicas.Function.MaxReplicas = 1000
	cpu.Function.MaxResources.CPU = new(resource.MustParse("1000"))
	memory.Function.MaxResources.Memory = new(resource.MustParse("1P"))
	storage.Build.MaxResources.EphemeralStorage = new(resource.MustParse("1P"))
	for name, test := range map[string]struct {
		account  string
		settings settings.Settings
		want     string
	}{
		"Account":  {"renamed", installed, "does not cover the operator's account system:serviceaccount:by-sed:renamed: a Deployment without a Function is allowed"},
		"Netrc":    {"goless-operator", netrc, "fence.goless.io/netrc-secret"},
		"Prefixes": {"goless-operator", prefixes, "linkerd.io/check: cannot be added"},
		"Images":   {"goless-operator", images, "fence.goless.io/images"},
		"Replicas": {"goless-operator", replicas, "fence.goless.io/max-replicas"},
		"CPU":      {"goless-operator", cpu, "fence.goless.io/max-cpu"},
		"Memory":   {"goless-operator", memory, "fence.goless.io/max-memory"},
		"Storage":  {"goless-operator", storage, "fence.goless.io/max-ephemeral-storage"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := checker(t, as("by-sed:"+test.account), test.settings, "by-sed", 2*time.Second).Check(t.Context())
			if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), "deploy/40-access-policy.yaml") {
				t.Errorf("got %v, want %q and the file name", err, test.want)
			}
		})
	}
}
