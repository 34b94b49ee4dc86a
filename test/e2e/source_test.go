package e2e

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"goless.io/operator/api/v1beta1"
)

// The two ways in which a source is refused before any compiler sees it.
const (
	badSignature = `package handlers

import (
	"fmt"
	"net/http"
)

func Handler(w http.ResponseWriter) {
	fmt.Fprint(w, "hello")
}
`
	syntaxError = `package handlers

import "net/http"

func Handler(w http.ResponseWriter, r *http.Request) {
	w.Write([]byte("hello")
}
`
)

var badSignatureDiagnostic = v1beta1.Diagnostic{
	File: "handler.go", Line: 8, Column: 1,
	Message: "wrong signature for Handler, must be: func Handler(http.ResponseWriter, *http.Request)",
}

func TestBadSignatureOnCreate(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t, unadmitted)
	fn := ns.stalled(ns.apply(function("unsigned", badSignature)), v1beta1.ReasonInvalidSource)
	ns.refused(fn, badSignatureDiagnostic)
	ns.has(fn, v1beta1.ConditionAvailable, metav1.ConditionFalse, v1beta1.ReasonNoReadyReplica)

	fn = ns.ready(ns.change(fn, source(answering("signed"))))
	ns.answers(fn, "signed")
	ns.fewPods(fn, 1)
	if sets := names[*appsv1.ReplicaSet](ns.witness); len(sets) != 1 {
		t.Errorf("these revisions were rolled out: %v", sets)
	}
}

func TestBadSignatureOnUpdate(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t, unadmitted)
	fn := ns.ready(ns.apply(function("resigned", answering("good"))))
	good, pods := fn.Status.LatestRevision, uids(ns.pods(fn))

	fn = ns.stalled(ns.change(fn, source(badSignature)), v1beta1.ReasonInvalidSource)
	ns.refused(fn, badSignatureDiagnostic)
	ns.stillServes(fn, good)
	if fn.Status.LatestRevision != good {
		t.Errorf("revision %s is the latest valid one, and the status says %s", good, fn.Status.LatestRevision)
	}
	ns.answers(fn, "good")

	// The rest of the spec is followed while the source is refused.
	fn = ns.change(fn, replicas(2))
	ns.until("a second replica of the good source runs", func() bool { return len(ns.readyPods(fn, good)) == 2 })

	fn = ns.ready(ns.change(fn, source(answering("good"))))
	if now := uids(ns.pods(fn)); len(now) != 2 || !slices.Contains(now, pods[0]) {
		t.Errorf("the pods were exchanged: from %v to %v", pods, now)
	}
}

// What cannot be parsed is refused as well, with its place.
func TestSyntaxError(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t, unadmitted)
	fn := ns.stalled(ns.apply(function("unclosed", syntaxError)), v1beta1.ReasonInvalidSource)
	ns.refused(fn,
		v1beta1.Diagnostic{File: "handler.go", Line: 6, Column: 25, Message: "missing ',' before newline in argument list"},
		v1beta1.Diagnostic{File: "handler.go", Line: 7, Column: 1, Message: "expected operand, found '}'"},
	)
}

// refused fails the test unless the Function's source was, for the reasons told.
func (ns *namespace) refused(fn *v1beta1.Function, want ...v1beta1.Diagnostic) {
	ns.t.Helper()
	if diff := cmp.Diff(&v1beta1.BuildStatus{Diagnostics: want}, fn.Status.Build); diff != "" {
		ns.t.Errorf("status.build (-want +got):\n%s", diff)
	}
	ns.has(fn, v1beta1.ConditionSourceValid, metav1.ConditionFalse, v1beta1.ReasonInvalidSource)
	ns.has(fn, v1beta1.ConditionBuilt, metav1.ConditionFalse, v1beta1.ReasonInvalidSource)
	ns.has(fn, v1beta1.ConditionReady, metav1.ConditionFalse, v1beta1.ReasonInvalidSource)
	given := func(c *corev1.ConfigMap) bool { return c.Data["handler.go"] == fn.Spec.Function }
	if !first(ns.witness, given).IsZero() {
		ns.t.Error("the source was refused, and was given to a compiler")
	}
}
