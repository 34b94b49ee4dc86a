package controllers_test

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/trigger/api/v1alpha1"
)

// The API server rejects an invalid HTTPTrigger and names the field in the message.
func TestHTTPSchema(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	parents := []v1alpha1.ParentReference{{Name: "public"}}
	for name, test := range map[string]struct {
		edit func(*v1alpha1.HTTPTriggerSpec)
		want string // "" if it is accepted
	}{
		"Least": {func(*v1alpha1.HTTPTriggerSpec) {}, ""},
		"Ingress": {func(s *v1alpha1.HTTPTriggerSpec) {
			s.IngressClassName, s.TLS, s.Path = "internal", &v1alpha1.IngressTLS{SecretName: "c"}, "/a/b.c"
		}, ""},
		"Canary": {func(s *v1alpha1.HTTPTriggerSpec) {
			s.FunctionRef, s.Backends, s.ParentRefs = nil, []v1alpha1.Backend{{Function: "a", Weight: new(int32(0))}, {Function: "b"}}, parents
		}, ""},
		"NoFunction":   {func(s *v1alpha1.HTTPTriggerSpec) { s.FunctionRef = nil }, "set either functionRef or backends"},
		"Both":         {func(s *v1alpha1.HTTPTriggerSpec) { s.Backends = []v1alpha1.Backend{{Function: "a"}} }, "set either functionRef or backends"},
		"NoHostname":   {func(s *v1alpha1.HTTPTriggerSpec) { s.Hostnames = []v1alpha1.Hostname{} }, "spec.hostnames"},
		"HostPort":     {func(s *v1alpha1.HTTPTriggerSpec) { s.Hostnames = []v1alpha1.Hostname{"a.example:80"} }, "spec.hostnames[0]"},
		"UpperCase":    {func(s *v1alpha1.HTTPTriggerSpec) { s.Hostnames = []v1alpha1.Hostname{"A.example"} }, "spec.hostnames[0]"},
		"Everything":   {func(s *v1alpha1.HTTPTriggerSpec) { s.Hostnames = []v1alpha1.Hostname{"*"} }, "spec.hostnames[0]"},
		"Path":         {func(s *v1alpha1.HTTPTriggerSpec) { s.Path = "a" }, "spec.path"},
		"PathEnd":      {func(s *v1alpha1.HTTPTriggerSpec) { s.Path = "/a/" }, "spec.path"},
		"PathAbove":    {func(s *v1alpha1.HTTPTriggerSpec) { s.Path = "/a/../b" }, "path must not have"},
		"PathDot":      {func(s *v1alpha1.HTTPTriggerSpec) { s.Path = "/a/." }, "path must not have"},
		"PathHidden":   {func(s *v1alpha1.HTTPTriggerSpec) { s.Path = "/.well-known/a..b" }, ""},
		"PathRegexp":   {func(s *v1alpha1.HTTPTriggerSpec) { s.Path = "/(.*)" }, "spec.path"},
		"ClassOfRoute": {func(s *v1alpha1.HTTPTriggerSpec) { s.IngressClassName, s.ParentRefs = "internal", parents }, "ingressClassName and tls"},
		"TLSOfRoute": {func(s *v1alpha1.HTTPTriggerSpec) {
			s.TLS, s.ParentRefs = &v1alpha1.IngressTLS{SecretName: "c"}, parents
		}, "ingressClassName and tls"},
		"Timeout":          {func(s *v1alpha1.HTTPTriggerSpec) { s.Timeout, s.ParentRefs = &metav1.Duration{}, parents }, ""},
		"TimeoutOfIngress": {func(s *v1alpha1.HTTPTriggerSpec) { s.Timeout = &metav1.Duration{} }, "timeout requires parentRefs"},
		"TimeoutShort": {func(s *v1alpha1.HTTPTriggerSpec) {
			s.Timeout, s.ParentRefs = &metav1.Duration{Duration: time.Millisecond}, parents
		}, "timeout must be 0s"},
		"Weights": {func(s *v1alpha1.HTTPTriggerSpec) {
			s.FunctionRef, s.Backends = nil, []v1alpha1.Backend{{Function: "a"}, {Function: "b"}}
		}, "more than one backend requires parentRefs"},
		"Twice": {func(s *v1alpha1.HTTPTriggerSpec) {
			s.FunctionRef, s.Backends, s.ParentRefs = nil, []v1alpha1.Backend{{Function: "a"}, {Function: "a"}}, parents
		}, "spec.backends[1]"},
		"Negative": {func(s *v1alpha1.HTTPTriggerSpec) {
			s.FunctionRef, s.Backends = nil, []v1alpha1.Backend{{Function: "a", Weight: new(int32(-1))}}
		}, "spec.backends[0].weight"},
	} {
		t.Run(name, func(t *testing.T) {
			trigger := &v1alpha1.HTTPTrigger{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "public"},
				Spec:       v1alpha1.HTTPTriggerSpec{FunctionRef: &v1alpha1.FunctionReference{Name: "report"}, Hostnames: []v1alpha1.Hostname{"*.example.com"}},
			}
			test.edit(&trigger.Spec)
			err := cluster.Create(t.Context(), trigger, client.DryRunAll)
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

// A trigger that was just applied is not reported as finished: kstatus compares the observed
// generation, and so do Argo CD and Flux.
func TestNotSeenYet(t *testing.T) {
	t.Parallel()
	for _, trigger := range oneOfEachKind(newNamespace(t)) {
		if err := cluster.Create(t.Context(), trigger, client.DryRunAll); err != nil || trigger.CommonStatus().ObservedGeneration != -1 {
			t.Errorf("a new %s has observed generation %d, want -1 (%v)", trigger.TriggerKind(), trigger.CommonStatus().ObservedGeneration, err)
		}
	}
}
