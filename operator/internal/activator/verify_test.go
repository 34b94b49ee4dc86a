package activator_test

import (
	"encoding/json"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/verification"
)

// While the Service contains limits, the leader counts the requests of the pods. Its report is in the
// EndpointSlice, whether the function may sleep or not, until the limits are removed. A report about
// a pod that no longer exists is replaced.
func TestVerify(t *testing.T) {
	t.Parallel()
	for name, sleepAfter := range map[string]string{"Sleeps": "1h", "NeverSleeps": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFunction(t, 1, sleepAfter)
			f.served.Store(40)
			limits := verification.Limits{Template: "t-2", Seconds: 3600, MaxErrorIncrease: 0.05, MinRequests: 20}
			annotation, _ := json.Marshal(limits.String())
			f.patchService(`{"metadata":{"annotations":{"` + v1beta1.VerifyLimitsAnnotation + `":` + string(annotation) + `}}}`)
			reported := func(uid types.UID) {
				t.Helper()
				want := verification.Report{Template: "t-2", Pod: uid, New: verification.Counts{Requests: 40, Failed: 20}}
				eventually(t, "a report", func() bool {
					s := f.slice()
					return s != nil && s.Annotations[v1beta1.VerifyReportAnnotation] == want.String()
				})
			}
			first := f.runTemplate("first", "t-2")
			reported(first)
			f.remove("first")
			reported(f.runTemplate("second", "t-2"))
			f.patchService(`{"metadata":{"annotations":{"` + v1beta1.VerifyLimitsAnnotation + `":null}}}`)
			eventually(t, "no report", func() bool {
				s := f.slice()
				return s == nil && sleepAfter == "" || s != nil && sleepAfter != "" && s.Annotations[v1beta1.VerifyReportAnnotation] == ""
			})
		})
	}
}

// runTemplate is like run, for a pod of a template.
func (f *function) runTemplate(name, template string) types.UID {
	f.t.Helper()
	pod := newPod(f.namespace, name, f.labels(), f.port)
	pod.Labels[v1beta1.TemplateLabel] = template
	create(f.t, pod)
	if err := setStatus(f.t.Context(), pod, time.Now(), f.ip); err != nil {
		f.t.Fatal(err)
	}
	return pod.UID
}

// remove deletes a pod without a grace period.
func (f *function) remove(name string) {
	f.t.Helper()
	if err := cluster.Delete(f.t.Context(), f.pod(name), client.GracePeriodSeconds(0)); err != nil {
		f.t.Fatal(err)
	}
}
