package e2e

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
)

// plainFunctions is the number of Functions in the folder beside those in testdata/flux.yaml.
const plainFunctions = 17

// fluxSystem is the namespace of the kustomize-controller.
const fluxSystem = "kustomize-system"

// storing serves the artifacts that it receives.
const storing = `package artifacts

import (
	"encoding/base64"
	"io"
	"net/http"
	"sync"
)

var artifacts sync.Map

func Handler(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		artifact, ok := artifacts.Load(r.URL.Path)
		if !ok {
			http.NotFound(w, r)
			return
		}
		w.Write(artifact.([]byte))
		return
	}
	artifact, err := io.ReadAll(base64.NewDecoder(base64.StdEncoding, r.Body))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	artifacts.Store(r.URL.Path, artifact)
}
`

// Flux applies a folder with 20 Functions and triggers of every kind as an administrator of the
// namespace. Its health checks agree with the status of the Functions, it corrects drift and then
// changes nothing, an invalid Function is rejected without harm even with force, and it prunes.
func TestNeighbourFlux(t *testing.T) {
	installFlux(t)
	f := newFluxFolder(t)
	ns := f.ns

	f.publish(f.folder())
	f.ready()
	for _, name := range []string{"everything", "plain-1"} {
		fn := get(ns, name, &v1beta1.Function{})
		ns.agree(fn)
		ns.answers(fn, map[string]string{"everything": "hello", "plain-1": "1"}[name])
	}
	seen(t, "A Kustomization with `wait: true` and the account of a tenant applies 20 Functions and triggers of every kind, and becomes Ready.")

	sleeper := ns.asleep(get(ns, "sleepy", &v1beta1.Function{}))
	ns.until("the KafkaTrigger reports its delivery, within about a minute", func() bool {
		return ns.kubectl("get", "kafkatrigger", "records", "--output=jsonpath={.status.lastDelivery.outcome}") == "Delivered"
	})
	f.standsStill()
	if !f.isReady() {
		t.Errorf("with a sleeping Function the Kustomization is %s", f.condition())
	}
	ns.answers(sleeper, "")
	seen(t, "The generation and the resourceVersion of the objects do not change afterwards, also while a Function sleeps.")

	f.correctsDrift()
	seen(t, "Drift is corrected once.")
	f.breaksOne()
	seen(t, "A Function that does not compile makes the Kustomization not Ready, and its correction makes it Ready.")
	f.rejectsInvalid()
	seen(t, "With `force: true`, a Function that admission rejects keeps its objects and serves.")
	f.suspends()
	f.keepsFinalizer()
	f.prunes()
	seen(t, "The Kustomization can be suspended. It recreates a Function whose deletion a finalizer of another client has delayed, and deletes all objects that are removed from the folder.")
}

// A fluxFolder is a Kustomization in a namespace, with the account of a tenant, and a GitRepository
// whose artifacts a Function serves.
type fluxFolder struct {
	t         *testing.T
	ns        *namespace
	artifacts *v1beta1.Function
	broker    string
	revision  string
}

func newFluxFolder(t *testing.T) *fluxFolder {
	t.Helper()
	ns := newNamespace(t, func(object *corev1.Namespace) { object.Annotations["goless.io/hostnames"] = "flux.example" })
	admitted(ns)
	f := &fluxFolder{t: t, ns: ns}
	f.artifacts = ns.ready(ns.apply(function("artifacts", storing)))
	ns.applyYAML(fmt.Sprintf(`
apiVersion: v1
kind: ServiceAccount
metadata: {name: tenant}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: tenant}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: admin}
subjects: [{kind: ServiceAccount, name: tenant, namespace: %s}]
---
apiVersion: source.toolkit.fluxcd.io/v1
kind: GitRepository
metadata: {name: folder}
spec: {interval: 1h, url: "https://git.example/folder.git"}
`, ns.name))
	f.kustomization("tenant")
	t.Cleanup(func() { // while the controller runs, which removes its finalizer
		if out, err := exec.Command("kubectl", "-n", ns.name, "delete", "kustomizations.kustomize.toolkit.fluxcd.io", "--all", "--timeout=2m").CombinedOutput(); err != nil {
			t.Errorf("deleting the Kustomization: %v: %s", err, out)
		}
	})
	return f
}

// kustomization applies the Kustomization, with an account or that of the controller.
func (f *fluxFolder) kustomization(account string) {
	f.t.Helper()
	if account != "" {
		account = "\n  serviceAccountName: " + account
	}
	f.ns.applyYAML(fmt.Sprintf(`
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: folder}
spec:%s
  interval: 10s
  retryInterval: 10s
  timeout: 5m
  path: ./
  targetNamespace: %s
  sourceRef: {kind: GitRepository, name: folder}
  prune: true
  wait: true
`, account, f.ns.name))
}

// folder returns the objects of the folder: those of testdata/flux.yaml and more Functions. The
// Function with a number in instead has that source.
func (f *fluxFolder) folder(instead ...string) []string {
	f.t.Helper()
	if f.broker == "" {
		js := f.ns.startNATS()
		if _, err := js.CreateStream(f.t.Context(), jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders.>"}}); err != nil {
			f.t.Fatal(err)
		}
		f.broker = startKafka(f.ns, 3)
	}
	text, err := os.ReadFile("testdata/flux.yaml")
	if err != nil {
		f.t.Fatal(err)
	}
	files := []string{strings.NewReplacer("BROKER", f.broker, "NAMESPACE", f.ns.name).Replace(string(text))}
	for i := range plainFunctions {
		source := answering(strconv.Itoa(i))
		if i == 0 && len(instead) > 0 {
			source = instead[0]
		}
		files = append(files, functionYAML("plain-"+strconv.Itoa(i), source))
	}
	return files
}

// functionYAML returns a Function as YAML, without a namespace.
func functionYAML(name, source string) string {
	return fmt.Sprintf("apiVersion: goless.io/v1beta1\nkind: Function\nmetadata:\n  name: %s\nspec:\n  function: |\n    %s\n",
		name, strings.ReplaceAll(source, "\n", "\n    "))
}

// publish makes files the content of the folder.
func (f *fluxFolder) publish(files ...any) {
	f.t.Helper()
	var all []string
	for _, file := range files {
		switch file := file.(type) {
		case string:
			all = append(all, file)
		case []string:
			all = append(all, file...)
		}
	}
	artifact := compressed(f.t, all)
	digest := fmt.Sprintf("sha256:%x", sha256.Sum256(artifact))
	path := "/" + digest[len("sha256:"):] + ".tar.gz"
	if r := f.ns.call(http.MethodPut, url(f.artifacts)+path, base64.StdEncoding.EncodeToString(artifact)); r.Status != http.StatusOK {
		f.t.Fatalf("the artifact is not stored: %d %s", r.Status, r.Body)
	}
	f.revision = "main@" + digest
	status, err := json.Marshal(map[string]any{"status": map[string]any{
		"observedGeneration": 1,
		"artifact": map[string]any{
			"digest": digest, "path": "folder" + path, "revision": f.revision, "size": len(artifact),
			"url": url(f.artifacts) + path, "lastUpdateTime": metav1.Now(),
		},
		"conditions": []metav1.Condition{{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Succeeded", LastTransitionTime: metav1.Now()}},
	}})
	if err != nil {
		f.t.Fatal(err)
	}
	f.ns.kubectl("patch", "gitrepository/folder", "--subresource=status", "--type=merge", "--patch="+string(status))
}

// compressed returns a tar.gz with the files.
func compressed(t *testing.T, files []string) []byte {
	t.Helper()
	var buffer bytes.Buffer
	zipped := gzip.NewWriter(&buffer)
	writer := tar.NewWriter(zipped)
	for i, text := range files {
		header := &tar.Header{Name: fmt.Sprintf("%02d.yaml", i), Mode: 0o644, Size: int64(len(text))}
		if err := writer.WriteHeader(header); err != nil {
			t.Fatal(err)
		}
		if _, err := writer.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	if err := zipped.Close(); err != nil {
		t.Fatal(err)
	}
	return buffer.Bytes()
}

// fluxStatus is the part of a Kustomization that the tests read.
type fluxStatus struct {
	Status struct {
		LastAppliedRevision   string
		LastAttemptedRevision string
		Conditions            []metav1.Condition
	}
}

func (f *fluxFolder) status() (s fluxStatus) {
	f.t.Helper()
	if err := json.Unmarshal([]byte(f.ns.kubectl("get", "kustomizations.kustomize.toolkit.fluxcd.io/folder", "--output=json")), &s); err != nil {
		f.t.Fatal(err)
	}
	return s
}

// condition returns the reason and the message of the condition Ready.
func (f *fluxFolder) condition() string {
	ready := meta.FindStatusCondition(f.status().Status.Conditions, "Ready")
	if ready == nil {
		return "without conditions"
	}
	return fmt.Sprintf("%s: %s: %s", ready.Status, ready.Reason, ready.Message)
}

func (f *fluxFolder) isReady() bool {
	s := f.status().Status
	return s.LastAppliedRevision == f.revision && meta.IsStatusConditionTrue(s.Conditions, "Ready")
}

// ready waits until the Kustomization is Ready with the published revision.
func (f *fluxFolder) ready() {
	f.t.Helper()
	started := time.Now()
	f.ns.eventually("the Kustomization is Ready", func() error {
		if !f.isReady() {
			return fmt.Errorf("it is %s", f.condition())
		}
		return nil
	})
	f.t.Logf("the Kustomization was Ready after %s", time.Since(started).Round(time.Second))
}

// notReady waits until the Kustomization has failed with the published revision, and its message
// contains a part.
func (f *fluxFolder) notReady(part string) {
	f.t.Helper()
	var said string
	f.ns.eventually("the Kustomization fails because of "+part, func() error {
		said = f.condition()
		if s := f.status().Status; s.LastAttemptedRevision != f.revision || !strings.HasPrefix(said, "False: ") || !strings.Contains(said, part) {
			return fmt.Errorf("it is %s", said)
		}
		return nil
	})
	f.t.Log("the Kustomization failed: ", said)
}

// versions returns the generation and the resourceVersion of each Function and trigger.
func (f *fluxFolder) versions() string {
	f.t.Helper()
	return f.ns.kubectl("get", "functions,crontriggers,httptriggers,kafkatriggers,natstriggers",
		`--output=jsonpath={range .items[*]}{.kind}/{.metadata.name}: {.metadata.generation} {.metadata.resourceVersion}{"\n"}{end}`)
}

// standsStill fails the test if a Function or a trigger changes while Flux reconciles for a minute.
func (f *fluxFolder) standsStill() {
	f.t.Helper()
	reconciles := 6.0
	if os.Getenv("FULL") != "" {
		reconciles = 30
	}
	before, since := f.versions(), reconciledByFlux(f.ns)
	f.ns.eventually(fmt.Sprintf("Flux reconciles %v times", reconciles), func() error {
		if n := reconciledByFlux(f.ns) - since; n < reconciles {
			return fmt.Errorf("it has reconciled %v times", n)
		}
		return nil
	})
	if after := f.versions(); after != before {
		f.t.Errorf("objects changed without a change of the folder; before:\n%s\nafter:\n%s", before, after)
	}
}

// reconciledByFlux returns how often the controller has reconciled Kustomizations.
func reconciledByFlux(ns *namespace) (sum float64) {
	ns.t.Helper()
	address := ns.kubectl("get", "pods", "--namespace="+fluxSystem, "--output=jsonpath={.items[0].status.podIP}")
	r := ns.call(http.MethodGet, "http://"+address+":8080/metrics", "")
	for line := range strings.Lines(r.Body) {
		if strings.HasPrefix(line, `controller_runtime_reconcile_total{controller="kustomization"`) {
			n, err := strconv.ParseFloat(strings.Fields(line)[1], 64)
			if err != nil {
				ns.t.Fatal(err)
			}
			sum += n
		}
	}
	return sum
}

// correctsDrift changes Functions as users do. Flux undoes it, and then nothing changes.
func (f *fluxFolder) correctsDrift() {
	f.t.Helper()
	ns := f.ns
	ns.kubectl("patch", "function/everything", "--type=merge", `--patch={"spec": {"timeout": "5s", "appProtocol": null, "concurrency": 3}}`)
	ns.kubectl("scale", "function/everything", "--replicas=3")
	ns.kubectl("delete", "function/plain-3")
	ns.kubectl("patch", "crontrigger/yearly", "--type=merge", `--patch={"spec": {"schedule": "@daily"}}`)
	ns.eventually("Flux corrects the drift", func() error {
		var drifted []string
		fn := get(ns, "everything", &v1beta1.Function{})
		if fn.Spec.Timeout.Duration != 90*time.Second || fn.Spec.AppProtocol != "http" || *fn.Spec.Replicas != 2 || fn.Spec.Concurrency != 10 {
			drifted = append(drifted, yamlOf(fn.Spec))
		}
		if ns.kubectl("get", "crontrigger/yearly", "--output=jsonpath={.spec.schedule}") != "@yearly" {
			drifted = append(drifted, "the schedule")
		}
		if err := ns.client.Get(f.t.Context(), client.ObjectKey{Namespace: ns.name, Name: "plain-3"}, &v1beta1.Function{}); err != nil {
			drifted = append(drifted, err.Error())
		}
		if len(drifted) > 0 {
			return fmt.Errorf("drifted: %s", strings.Join(drifted, "\n"))
		}
		return nil
	})
	for _, name := range []string{"everything", "plain-3"} {
		ns.ready(get(ns, name, &v1beta1.Function{}))
	}
	ns.asleep(get(ns, "sleepy", &v1beta1.Function{}))
	f.ready()
	f.standsStill()
}

// breaksOne publishes a Function that does not compile, and then its fix.
func (f *fluxFolder) breaksOne() {
	f.t.Helper()
	ns := f.ns
	fn := get(ns, "plain-0", &v1beta1.Function{})
	f.publish(f.folder(undefined))
	f.notReady("Function/" + ns.name + "/plain-0")
	ns.stalled(get(ns, "plain-0", &v1beta1.Function{}), v1beta1.ReasonCompileFailed)
	ns.answers(fn, "0")
	f.publish(f.folder(answering("fixed")))
	f.ready()
	ns.answers(fn, "fixed")
}

// rejectsInvalid publishes a Function that admission rejects, to a Kustomization that may recreate
// objects.
func (f *fluxFolder) rejectsInvalid() {
	f.t.Helper()
	ns := f.ns
	ns.kubectl("patch", "kustomizations.kustomize.toolkit.fluxcd.io/folder", "--type=merge", `--patch={"spec": {"force": true}}`)
	before := get(ns, "plain-0", &v1beta1.Function{})
	f.publish(f.folder(unhandled))
	f.notReady("wrong signature for Handler")
	if after := get(ns, "plain-0", &v1beta1.Function{}); after.UID != before.UID {
		f.t.Error("the Function has been recreated")
	}
	ns.answers(before, "fixed")
	ns.kubectl("patch", "kustomizations.kustomize.toolkit.fluxcd.io/folder", "--type=merge", `--patch={"spec": {"force": false}}`)
	f.publish(f.folder())
	f.ready()
}

// suspends changes a Function while the Kustomization is suspended, and then resumes it.
func (f *fluxFolder) suspends() {
	f.t.Helper()
	ns := f.ns
	ns.kubectl("patch", "kustomizations.kustomize.toolkit.fluxcd.io/folder", "--type=merge", `--patch={"spec": {"suspend": true}}`)
	ns.kubectl("scale", "function/plain-4", "--replicas=2")
	fn := get(ns, "plain-4", &v1beta1.Function{})
	since := reconciledByFlux(ns)
	f.publish(f.folder(answering("suspended")))
	ns.eventually("Flux has seen the revision", func() error {
		if reconciledByFlux(ns) == since {
			return fmt.Errorf("it has not")
		}
		return nil
	})
	ns.ready(fn)
	if after := get(ns, "plain-4", &v1beta1.Function{}); after.Generation != fn.Generation {
		f.t.Errorf("a suspended Kustomization has changed the Function: %s", yamlOf(after.Spec))
	}
	ns.kubectl("patch", "kustomizations.kustomize.toolkit.fluxcd.io/folder", "--type=merge", `--patch={"spec": {"suspend": false}}`)
	f.ready()
	ns.answers(get(ns, "plain-0", &v1beta1.Function{}), "suspended")
}

// keepsFinalizer deletes a Function with a finalizer of another program. Flux recreates it when the
// finalizer is removed, and it becomes ready. Flux removes fields that kubectl has set, so the
// finalizer has another field manager.
func (f *fluxFolder) keepsFinalizer() {
	f.t.Helper()
	ns := f.ns
	ns.kubectl("patch", "function/plain-5", "--field-manager=example", "--type=merge", `--patch={"metadata": {"finalizers": ["example.com/stay"]}}`)
	old := get(ns, "plain-5", &v1beta1.Function{})
	ns.kubectl("delete", "function/plain-5", "--wait=false", "--cascade=foreground")
	ns.eventually("the Kustomization is not Ready", func() error {
		if said := f.condition(); strings.HasPrefix(said, "True: ") {
			return fmt.Errorf("it is %s", said)
		}
		return nil
	})
	ns.kubectl("patch", "function/plain-5", "--type=json", `--patch=[{"op": "remove", "path": "/metadata/finalizers"}]`)
	ns.eventually("the Function has been recreated", func() error {
		var fn v1beta1.Function
		err := ns.client.Get(f.t.Context(), client.ObjectKeyFromObject(old), &fn)
		if err == nil && fn.UID == old.UID {
			err = fmt.Errorf("it is still the same")
		}
		return err
	})
	ns.answers(ns.ready(get(ns, "plain-5", &v1beta1.Function{})), "5")
	f.ready()
}

// prunes removes all files from the folder.
func (f *fluxFolder) prunes() {
	f.t.Helper()
	ns := f.ns
	f.publish("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: last}\n")
	f.ready()
	made := func(object client.Object) bool {
		name := object.GetLabels()[functionLabel]
		return name != "" && name != f.artifacts.Name || object.GetLabels()["goless.io/trigger"] != ""
	}
	gone(ns, "no Function of the folder is left", func(fn *v1beta1.Function) bool { return fn.Name != f.artifacts.Name })
	gone(ns, "no Deployment is left", func(o *appsv1.Deployment) bool { return made(o) })
	gone(ns, "no pod is left", func(o *corev1.Pod) bool { return made(o) })
	left := strings.TrimSpace(ns.kubectl("get", "crontriggers,httptriggers,kafkatriggers,natstriggers,ingresses,cronjobs", "--ignore-not-found", "--output=name"))
	if left != "" {
		f.t.Errorf("left after pruning:\n%s", left)
	}
}

// installFlux installs the kustomize-controller, without the source-controller.
func installFlux(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(neighbourManifest(t, "config"))); err != nil {
		t.Fatal(err)
	}
	image, digest, ok := strings.Cut(neighbourImage(t, "IMAGE_KUSTOMIZE_CONTROLLER"), "@")
	if !ok {
		t.Fatal("the image has no digest")
	}
	overlay := fmt.Sprintf(`
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
namespace: %s
resources: [../crd, ../rbac, ../manager, namespace.yaml]
images: [{name: fluxcd/kustomize-controller, newName: %q, digest: %q}]
patches:
  - target: {kind: Deployment}
    patch: | # see docs/how-to/gitops.md
      - {op: add, path: /spec/template/spec/containers/0/args/-, value: --custom-apply-stage-kinds=rbac.authorization.k8s.io/Role}
`, fluxSystem, image, digest)
	if err := os.WriteFile(filepath.Join(dir, "default", "kustomization.yaml"), []byte(overlay), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) {
		t.Helper()
		if out, err := kubectl(t.Context(), args...); err != nil {
			t.Fatal(err, out)
		}
	}
	sources := sourceCRDs(t)
	t.Cleanup(func() {
		for _, objects := range [][]string{{"-k", filepath.Join(dir, "default")}, {"-f", sources}} {
			args := append([]string{"delete", "--ignore-not-found", "--timeout=3m"}, objects...)
			if out, err := exec.Command("kubectl", args...).CombinedOutput(); err != nil {
				t.Errorf("removing Flux: %v: %s", err, out)
			}
		}
	})
	run("apply", "--server-side", "-f", sources)
	run("apply", "--server-side", "-k", filepath.Join(dir, "default"))
	run("-n", fluxSystem, "rollout", "status", "deployment/kustomize-controller", "--timeout="+patience.String())
}

// sourceCRDs returns the directory of the definitions of GitRepository and others, in the version
// that the kustomize-controller requires.
func sourceCRDs(t *testing.T) string {
	t.Helper()
	required, err := os.ReadFile(neighbourManifest(t, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	const module = "github.com/fluxcd/source-controller"
	_, rest, ok := strings.Cut(string(required), module+"/api ")
	version, _, _ := strings.Cut(rest, "\n")
	if !ok {
		t.Fatalf("the kustomize-controller does not require %s", module)
	}
	out, err := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", module+"@"+version).Output()
	if err != nil {
		t.Fatalf("downloading %s: %v", module, err)
	}
	var downloaded struct{ Dir string }
	if err := json.Unmarshal(out, &downloaded); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(downloaded.Dir, "config", "crd", "bases")
}
