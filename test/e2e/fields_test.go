package e2e

import (
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
)

// telling responds with the value of the environment variable in the query.
const telling = `package handlers

import (
	"net/http"
	"os"
)

func Handler(w http.ResponseWriter, r *http.Request) {
	w.Write([]byte(os.Getenv("GREETING") + " " + os.Getenv("LEVEL") + " " + os.Getenv("DB_password")))
}
`

// The environment is set in the function and not in the builder. Missing references are
// reported until they exist, and changes are rolled out.
func TestEnvironment(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	fn := ns.apply(inPod("telling", telling, func(spec *v1beta1.FunctionSpec) {
		spec.Env = []v1beta1.EnvVar{
			{Name: "GREETING", Value: "hello from $(FUNCTION_NAME)"},
			{Name: "LEVEL", ValueFrom: &v1beta1.EnvVarSource{ConfigMapKeyRef: &v1beta1.KeyRef{Name: "config", Key: "level"}}},
		}
		spec.EnvFrom = []v1beta1.EnvFromSource{{Prefix: "DB_", SecretRef: &v1beta1.ObjectRef{Name: "database"}}}
	}))
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "config"}, Data: map[string]string{"level": "low"}}
	ns.create(config)
	ns.becomes(fn, "waiting for the Secret", func(fn *v1beta1.Function) bool {
		return strings.Contains(condition(fn, v1beta1.ConditionReady).Message, `secret "database" not found`)
	})
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "database"}, StringData: map[string]string{"password": "p"}}
	ns.create(secret)
	fn = ns.ready(fn)
	ns.answers(fn, "hello from telling low p")
	if build := ns.pod(fn).Spec.InitContainers[0]; len(build.Env)+len(build.EnvFrom) > 0 {
		t.Errorf("the builder has the environment %v %v", build.Env, build.EnvFrom)
	}

	before := client.MergeFrom(config.DeepCopy())
	config.Data["level"] = "high"
	if err := ns.client.Patch(t.Context(), config, before); err != nil {
		t.Fatal(err)
	}
	ns.answers(fn, "hello from telling high p")
	fn = ns.ready(ns.change(fn, func(spec *v1beta1.FunctionSpec) { spec.Env[0].Value = "bye" }))
	ns.answers(fn, "bye high p")

	beforeSecret := client.MergeFrom(secret.DeepCopy())
	secret.StringData = map[string]string{"password": "q"}
	if err := ns.client.Patch(t.Context(), secret, beforeSecret); err != nil {
		t.Fatal(err)
	}
	ns.kubectl("rollout", "restart", "deployment/"+fn.Name)
	ns.answers(fn, "bye high q")
	ns.ready(fn)
}

// slow takes as long as the request specifies, or until its context ends.
const slow = `package handlers

import (
	"net/http"
	"time"
)

func Handler(w http.ResponseWriter, r *http.Request) {
	d, _ := time.ParseDuration(r.URL.Query().Get("d"))
	select {
	case <-time.After(d):
	case <-r.Context().Done():
	}
}
`

// A request that exceeds the timeout receives a response.
func TestTimeoutOfRequests(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	fn := ns.ready(ns.apply(function("slow", slow, func(spec *v1beta1.FunctionSpec) {
		spec.Timeout = &metav1.Duration{Duration: 300 * time.Millisecond}
	})))
	ns.reach(fn)
	if got := ns.call(http.MethodGet, url(fn)+"/?d=1m", "").Status; got != http.StatusGatewayTimeout && got != http.StatusServiceUnavailable {
		t.Errorf("the response to a request that exceeds the timeout has the status %d", got)
	}
	fn = ns.ready(ns.change(fn, func(spec *v1beta1.FunctionSpec) { spec.Timeout = &metav1.Duration{} }))
	ns.eventually("the timeout no longer applies", func() error {
		r, err := caller.call(t.Context(), http.MethodGet, url(fn)+"/?d=2s", "")
		if err == nil && r.Status != http.StatusOK {
			return differs(r.Body + r.Error)
		}
		return err
	})
}

// A build that exceeds its memory limit is reported. A higher limit fixes it.
func TestResourcesOfBuild(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	// The compiler needs twice the size of the table.
	large := answering("roomy") + "\nvar Table = [64 << 20]byte{64<<20 - 1: 1}\n"
	fn := ns.apply(inPod("cramped", large, func(spec *v1beta1.FunctionSpec) {
		little := v1beta1.Amounts{Memory: new(resource.MustParse("64Mi"))}
		spec.Build = &v1beta1.BuildSpec{Resources: &v1beta1.Resources{Requests: little, Limits: little}}
	}))
	fn = ns.stalled(fn, v1beta1.ReasonBuildOutOfMemory)
	fn = ns.ready(ns.change(fn, func(spec *v1beta1.FunctionSpec) { spec.Build.Resources = nil }))
	ns.answers(fn, "roomy")
}

// neverReady has a Ready hook that always fails.
const neverReady = `package handlers

import (
	"context"
	"errors"
	"net/http"
)

func Ready(context.Context) error { return errors.New("the database is gone") }

func Handler(w http.ResponseWriter, r *http.Request) {}
`

// A rollout without progress fails after the deadline in the Function, and the previous
// revision keeps serving.
func TestProgressDeadline(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	fn := ns.ready(ns.apply(function("patient", answering("old"), func(spec *v1beta1.FunctionSpec) {
		spec.ProgressDeadlineSeconds = new(int32(15))
	})))
	ns.answers(fn, "old")
	fn = ns.stalled(ns.change(fn, source(neverReady)), v1beta1.ReasonProgressDeadlineExceeded)
	ns.answers(fn, "old")
	ns.ready(ns.change(fn, source(answering("new"))))
	ns.answers(fn, "new")
}

// The Service has the appProtocol of the function.
func TestAppProtocol(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	fn := ns.ready(ns.apply(function("speaking", answering("spoken"), func(spec *v1beta1.FunctionSpec) {
		spec.AppProtocol = "kubernetes.io/h2c"
	})))
	port := get(ns, fn.Status.Service, &corev1.Service{}).Spec.Ports[0]
	if port.AppProtocol == nil || *port.AppProtocol != "kubernetes.io/h2c" {
		t.Errorf("unexpected port %+v", port)
	}
	ns.answers(fn, "spoken")
}
