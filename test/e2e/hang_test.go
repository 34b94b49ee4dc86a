package e2e

import (
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
)

// hanging has a Start that does not return.
const hanging = `package handlers

import (
	"context"
	"net/http"
)

func Start(context.Context) error {
	select {}
}

func Handler(w http.ResponseWriter, r *http.Request) {}
`

// A Start that hangs is reported: in the log with its stack, in the status and an event with
// its duration, and as Stalled after the progress deadline.
func TestStartHangs(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	fn := ns.says(ns.apply(function("hanging", hanging)), v1beta1.ReasonRollingOut, "a replica has been running")
	ns.eventually("the log contains the stack of Start", func() error {
		log := ns.kubectl("logs", "deployment/hanging", "--container=function")
		if !strings.Contains(log, "Start has not returned yet") || !strings.Contains(log, "handler.go:9") {
			return differs(log)
		}
		return nil
	})
	fn = ns.says(fn, v1beta1.ReasonRollingOut, "a replica has been running since ")
	ns.tells(fn, "Warning NotServing: a replica has been running since ")

	impatient := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"progressDeadlineSeconds":20}}`))
	if err := ns.client.Patch(t.Context(), get(ns, fn.Name, &appsv1.Deployment{}), impatient); err != nil {
		t.Fatal(err)
	}
	fn = ns.stalled(fn, v1beta1.ReasonProgressDeadlineExceeded)
	ns.tells(fn, "Warning ProgressDeadlineExceeded: no replica became ready within 20 seconds: ")
	fn = ns.ready(ns.change(fn, source(answering("up"))))
	ns.answers(fn, "up")
}

// The exit of a function before it serves is explained in the status.
func TestEndsBeforeItServes(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ init, want string }{
		"nil-map": {"var m map[string]int\n\tm[\"a\"] = len(os.Args)", "panic: assignment to entry in nil map at handler.go:10"},
		"exits":   {"os.Exit(3)", "it exited by itself, such as by os.Exit(3) or log.Fatal; its log is empty"},
		"loops":   {"for {\n\t\t_ = os.Args\n\t}", "it received SIGTERM because its health check failed: an init function or the initialization of a package variable does not return; its log is empty"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			if name == "loops" { // the kubelet waits for two minutes otherwise
				ns.afflict(`JSONPatch{op: "replace", path: "/spec/containers/0/livenessProbe", value: Object.spec.containers.livenessProbe{
					httpGet: Object.spec.containers.livenessProbe.httpGet{path: "/healthz", port: "metrics"}, initialDelaySeconds: 5, timeoutSeconds: 1, failureThreshold: 1, periodSeconds: 1}}`)
			}
			fn := inPod(name, "package handlers\n\nimport (\n\t\"net/http\"\n\t\"os\"\n)\n\nfunc init() {\n\t"+test.init+"\n}\n\nfunc Handler(w http.ResponseWriter, r *http.Request) {}\n")
			fn = ns.stalled(ns.apply(fn), v1beta1.ReasonCrashLooping)
			if got := condition(fn, v1beta1.ConditionReady).Message; !strings.HasSuffix(got, ": "+test.want) {
				t.Errorf("the message of Ready is %q, want %q", got, test.want)
			}
		})
	}
}

// A panic in a goroutine ends the function, which is restarted. An event reports the reason.
func TestRestartIsTold(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	fn := ns.ready(ns.apply(function("careless", `package handlers

import "net/http"

func Handler(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/slip" {
		go panic("this is not recovered")
		select {}
	}
	w.Write([]byte("upright"))
}
`)))
	ns.answers(fn, "upright")
	if _, err := caller.call(t.Context(), "GET", url(fn)+"/slip", ""); err != nil {
		t.Logf("the request that panics: %v", err)
	}
	ns.tells(fn, "Warning Restarted: replica "+ns.pod(fn).Name+" exited with code 2 and is restarted: panic: this is not recovered at handler.go:7")
	ns.answers(ns.ready(fn), "upright")
}

// If a quota on the memory of pods rejects the build, the message names the build container.
// After the change for it, the message no longer does.
func TestQuotaNamesTheBuild(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "narrow"}}
	quota.Spec.Hard = corev1.ResourceList{corev1.ResourceLimitsMemory: resource.MustParse("600Mi")}
	ns.create(quota)
	ns.eventually("the quota is enforced", func() error {
		if len(get(ns, quota.Name, quota).Status.Hard) == 0 {
			return differs("it has no status")
		}
		return nil
	})
	fn := ns.says(ns.apply(inPod("large", answering("small"))), v1beta1.ReasonBuilding,
		"memory: container build requests 128Mi, limit 768Mi (spec.build.resources), container function requests 32Mi, limit 256Mi (spec.resources)")
	ns.tells(fn, "Warning PodsRefused: pods cannot be created: exceeded quota: narrow")
	fn = ns.change(fn, func(spec *v1beta1.FunctionSpec) {
		spec.Build.Resources = &v1beta1.Resources{Limits: v1beta1.Amounts{Memory: new(resource.MustParse("512Mi"))}}
	})
	fn = ns.becomes(fn, "not told of the quota", func(fn *v1beta1.Function) bool {
		return !strings.Contains(condition(fn, v1beta1.ConditionReady).Message, "quota")
	})
	ns.answers(ns.ready(fn), "small")
}

// says waits until Ready is False with a reason and a part of its message.
func (ns *namespace) says(fn *v1beta1.Function, reason, part string) *v1beta1.Function {
	ns.t.Helper()
	return ns.becomes(fn, reason+": "+part, func(fn *v1beta1.Function) bool {
		ready := condition(fn, v1beta1.ConditionReady)
		return ready.Status == metav1.ConditionFalse && ready.Reason == reason && strings.Contains(ready.Message, part)
	})
}

// tells waits until an event of a Function begins with the text.
func (ns *namespace) tells(fn *v1beta1.Function, beginning string) {
	ns.t.Helper()
	ns.eventually(fn.Name+" has the event "+beginning, func() error {
		var list eventsv1.EventList
		if err := ns.client.List(ns.t.Context(), &list, client.InNamespace(ns.name)); err != nil {
			return err
		}
		var all []string
		for _, e := range list.Items {
			text := fmt.Sprintf("%s %s: %s", e.Type, e.Reason, e.Note)
			if e.Regarding.UID == fn.UID && strings.HasPrefix(text, beginning) {
				return nil
			}
			all = append(all, text)
		}
		return differs("there are only " + strings.Join(all, "\n"))
	})
}
