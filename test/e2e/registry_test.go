package e2e

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
)

// guarding allows access to the registry with the password.
const guarding = `package handlers

import (
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
)

var registry = httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: os.Getenv("REGISTRY")})

func Handler(w http.ResponseWriter, r *http.Request) {
	if user, password, _ := r.BasicAuth(); user != "puller" || password != "secret" {
		w.Header().Set("WWW-Authenticate", "Basic realm=\"registry\"")
		http.Error(w, "who are you?", http.StatusUnauthorized)
		return
	}
	registry.ServeHTTP(w, r)
}
`

// If the images of pods are in a registry that requires authentication, the pods wait, and the
// status reports it, until the Secret of the class exists. The registry is a function at a port
// of the node; a policy of the cluster makes the kubelet pull from it.
func TestPrivateRegistry(t *testing.T) {
	t.Parallel()
	registry := registryOfImages(t)
	if !strings.HasPrefix(registry, "127.0.0.1:") {
		t.Skipf("the registry %s is not available on each node", registry)
	}
	port := 15000 + rand.Int32N(10000) // a node keeps the images of the run before, by their names
	node := newNamespace(t, func(object *corev1.Namespace) { object.Labels = nil })
	node.afflict(`JSONPatch{op: "add", path: "/spec/hostNetwork", value: true}`)
	node.ready(node.apply(inPod("registry", guarding, serverPort(port), func(spec *v1beta1.FunctionSpec) {
		spec.Env = []v1beta1.EnvVar{{Name: "REGISTRY", Value: registry}}
	})))

	private := fmt.Sprintf("127.0.0.1:%d", port)
	ns := newNamespace(t)
	moved := func(containers string) string {
		return fmt.Sprintf(`JSONPatch{op: "replace", path: "/spec/%s/0/image", value: object.spec.%[1]s[0].image.replace("%s/", "%s/")}`, containers, registry, private)
	}
	ns.afflict(moved("containers") + `, ?(has(object.spec.initContainers) ? optional.of(` + moved("initContainers") + `) : optional.none())`)
	class := &v1beta1.FunctionClass{ObjectMeta: metav1.ObjectMeta{Name: ns.name}}
	class.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "registry"}}
	createInCluster(t, class)
	ofClass := func(spec *v1beta1.FunctionSpec) { spec.ClassName = class.Name }
	all := []*v1beta1.Function{
		ns.apply(shared("shared", answering("pulled"), ofClass)),
		ns.apply(inPod("in-pod", answering("pulled"), ofClass)),
	}
	for _, fn := range all {
		ns.becomes(fn, "told that its image is not to be had", func(fn *v1beta1.Function) bool {
			message := condition(fn, v1beta1.ConditionReady).Message
			return strings.Contains(message, "ErrImagePull: ") && strings.Contains(message, private)
		})
	}
	credentials := base64.StdEncoding.EncodeToString([]byte("puller:secret"))
	ns.create(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "registry"},
		Type:       corev1.SecretTypeDockerConfigJson,
		StringData: map[string]string{corev1.DockerConfigJsonKey: fmt.Sprintf(`{"auths": {%q: {"auth": %q}}}`, private, credentials)},
	})
	for _, fn := range all {
		fn = ns.ready(fn)
		ns.answers(fn, "pulled")
		if image := ns.pod(fn).Spec.Containers[0].Image; !strings.HasPrefix(image, private) {
			t.Errorf("unexpected image: %s runs %s", fn.Name, image)
		}
	}
}

// registryOfImages returns the registry of the images of functions' pods.
func registryOfImages(t *testing.T) string {
	t.Helper()
	var operator appsv1.Deployment
	if err := cluster.Get(t.Context(), client.ObjectKey{Namespace: systemNamespace, Name: operatorName}, &operator); err != nil {
		t.Fatal(err)
	}
	registry, _, _ := strings.Cut(variables(operator.Spec.Template.Spec.Containers[0])["FUNCTION_IMAGE"], "/")
	return registry
}
