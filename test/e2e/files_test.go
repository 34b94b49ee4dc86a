package e2e

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
)

// reading responds with two files, and reports whether it could write next to them.
const reading = `package handlers

import (
	"fmt"
	"net/http"
	"os"
)

func Handler(w http.ResponseWriter, r *http.Request) {
	level, _ := os.ReadFile("/files/config/level")
	key, _ := os.ReadFile("/files/tls/tls.key")
	_, hidden := os.Stat("/files/tls/tls.crt")
	writable := os.WriteFile("/files/config/more", nil, 0o600)
	fmt.Fprintf(w, "%s %s %t %t", level, key, hidden == nil, writable == nil)
}
`

// Files are mounted in the function with both build strategies. Missing references are reported
// until they exist. A change of a ConfigMap is rolled out; a change of a Secret reaches the
// running pods.
func TestFiles(t *testing.T) {
	t.Parallel()
	for name, strategy := range map[string]v1beta1.BuildStrategy{"shared": v1beta1.BuildShared, "inpod": v1beta1.BuildInPod} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			fn := ns.apply(function("reading", reading, func(spec *v1beta1.FunctionSpec) {
				spec.Build = &v1beta1.BuildSpec{Strategy: strategy}
				spec.Files = []v1beta1.File{
					{Name: "config", ConfigMap: &v1beta1.FileSource{Name: "config"}},
					{Name: "tls", Secret: &v1beta1.FileSource{Name: "tls", Keys: []string{"tls.key"}}},
				}
			}))
			config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "config"}, Data: map[string]string{"level": "low"}}
			ns.create(config)
			ns.becomes(fn, "waiting for the Secret", func(fn *v1beta1.Function) bool {
				return strings.Contains(condition(fn, v1beta1.ConditionReady).Message, `Secret "tls"`)
			})
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "tls"}, StringData: map[string]string{"tls.key": "old", "tls.crt": "c"}}
			ns.create(secret)
			fn = ns.ready(fn)
			ns.answers(fn, "low old false false")

			former := ns.onlyPod(fn)
			before := client.MergeFrom(config.DeepCopy())
			config.Data["level"] = "high"
			if err := ns.client.Patch(t.Context(), config, before); err != nil {
				t.Fatal(err)
			}
			// The kubelet may update the file of the old pod before it is replaced.
			var pod corev1.Pod
			ns.until("the ConfigMap has rolled the function out", func() bool {
				ready := ns.readyPods(fn, "")
				if len(ready) != 1 || ready[0].UID == former.UID {
					return false
				}
				pod = ready[0]
				return true
			})
			ns.answers(fn, "high old false false")

			was := client.MergeFrom(secret.DeepCopy())
			secret.StringData = map[string]string{"tls.key": "new"}
			if err := ns.client.Patch(t.Context(), secret, was); err != nil {
				t.Fatal(err)
			}
			ns.answers(fn, "high new false false") // within the minute that the kubelet takes
			if now := ns.onlyPod(fn); now.UID != pod.UID {
				t.Error("the change of the Secret has caused a rollout")
			}
		})
	}
}
