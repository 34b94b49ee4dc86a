package e2e

import (
	"crypto/tls"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// looking is a Function that describes its environment.
const looking = `package handlers

import (
	"crypto/x509"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

var root = filepath.FromSlash("/")

func Handler(w http.ResponseWriter, r *http.Request) {
	var seen struct {
		UID, GID     int
		Written      []string
		Token        bool
		Environment  []string
		Roots        bool
		Zone         string
		Capabilities string
	}
	seen.UID, seen.GID = syscall.Getuid(), syscall.Getgid()
	for _, dir := range []string{"/", "/etc", "/function", "/tmp", "/var", "/usr"} {
		if os.WriteFile(filepath.Join(root, dir, "here"), nil, 0o600) == nil {
			seen.Written = append(seen.Written, dir)
		}
	}
	_, err := os.Stat("/var/run/secrets")
	seen.Token = err == nil
	for _, variable := range os.Environ() {
		name, _, _ := strings.Cut(variable, "=")
		seen.Environment = append(seen.Environment, name)
	}
	roots, err := x509.SystemCertPool()
	seen.Roots = err == nil && !roots.Equal(x509.NewCertPool())
	if zone, err := time.LoadLocation("Europe/Zurich"); err == nil {
		seen.Zone = zone.String()
	}
	status, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(status)) {
		if value, ok := strings.CutPrefix(line, "CapBnd:"); ok {
			seen.Capabilities = strings.Trim(strings.TrimSpace(value), "0")
		}
	}
	json.NewEncoder(w).Encode(seen)
}
`

// A function has no permissions, but has root certificates and time zones.
func TestInsideOfFunction(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	ns.create(somebodysService("neighbour")) // which would be in the environment
	fn := ns.ready(ns.apply(function("looking", looking)))
	ns.reach(fn)
	type view struct {
		UID, GID     int
		Written      []string
		Token        bool
		Environment  []string
		Roots        bool
		Zone         string
		Capabilities string
	}
	var seen view
	if err := json.Unmarshal([]byte(ns.call("GET", url(fn), "").Body), &seen); err != nil {
		t.Fatal(err)
	}
	// Kubernetes always sets the address of its API in the environment. Without a token it is
	// of no use.
	seen.Environment = slices.DeleteFunc(seen.Environment, func(name string) bool { return strings.HasPrefix(name, "KUBERNETES_") })
	slices.Sort(seen.Environment)
	want := view{
		UID: 65532, GID: 65532, Roots: true, Zone: "Europe/Zurich",
		Environment: seen.Environment,
	}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Errorf("the environment of the function (-want +got):\n%s", diff)
	}
	for _, name := range seen.Environment {
		if strings.Contains(name, "_SERVICE_") || strings.Contains(name, "NEIGHBOUR") {
			t.Errorf("the environment contains other Services: %s", name)
		}
	}
}

// The pod has no privileges, and the restricted Pod Security Standard admits it without
// warnings.
func TestPodIsRestricted(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	fn := ns.ready(ns.apply(inPod("restricted", answering("low"), serverPort(80))))
	asksForNothing(t, ns.pod(fn).Spec)

	// The API server sent its warnings to the operator and not to the test. A dry run of the
	// same pod repeats them.
	deployment := get(ns, fn.Name, &appsv1.Deployment{})
	again := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "again", Namespace: ns.name, Labels: deployment.Spec.Template.Labels},
		Spec:       deployment.Spec.Template.Spec,
	}
	alike := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "alike", Namespace: ns.name},
		Spec:       deployment.Spec,
	}
	for _, object := range []client.Object{again, alike} {
		if err := ns.client.Create(t.Context(), object, client.DryRunAll); err != nil {
			t.Error(err)
		}
	}
	if warnings := ns.warned(); len(warnings) > 0 {
		t.Errorf("the API server warns about the pod: %v", warnings)
	}
}

// asksForNothing fails the test if a pod has a privilege.
func asksForNothing(t *testing.T, pod corev1.PodSpec) {
	t.Helper()
	if pod.AutomountServiceAccountToken == nil || *pod.AutomountServiceAccountToken {
		t.Error("the token of the account is mounted")
	}
	if pod.HostNetwork || pod.HostPID || pod.HostIPC {
		t.Error("the pod uses namespaces of the host")
	}
	if s := pod.SecurityContext; !*s.RunAsNonRoot || *s.RunAsUser != 65532 || s.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
		t.Errorf("the security context of the pod is\n%s", yamlOf(s))
	}
	for _, c := range slices.Concat(pod.InitContainers, pod.Containers) {
		if diff := cmp.Diff(&corev1.SecurityContext{
			AllowPrivilegeEscalation: new(false),
			ReadOnlyRootFilesystem:   new(true),
			Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		}, c.SecurityContext); diff != "" {
			t.Errorf("the security context of container %s (-want +got):\n%s", c.Name, diff)
		}
		for _, m := range c.VolumeMounts {
			if strings.HasPrefix(m.MountPath, "/var/run/secrets") {
				t.Errorf("container %s mounts a secret at %s", c.Name, m.MountPath)
			}
		}
	}
}

// token creates an account and returns a token for it.
func (ns *namespace) token(account string) string {
	ns.t.Helper()
	ns.create(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: account}})
	request, err := kube.CoreV1().ServiceAccounts(ns.name).CreateToken(ns.t.Context(), account, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		ns.t.Fatal(err)
	}
	return request.Status.Token
}

// stranger trusts the certificate of the operator, which is self-signed.
var stranger = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}

// scrape reads metrics with a token, if there is one.
func (ns *namespace) scrape(address, token string) (int, string) {
	ns.t.Helper()
	request, err := http.NewRequestWithContext(ns.t.Context(), http.MethodGet, address, nil)
	if err != nil {
		ns.t.Fatal(err)
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := stranger.Do(request)
	if err != nil {
		ns.t.Fatal(err)
	}
	defer response.Body.Close() //nolint:errcheck // it was only read
	body, err := io.ReadAll(response.Body)
	if err != nil {
		ns.t.Fatal(err)
	}
	return response.StatusCode, string(body)
}
