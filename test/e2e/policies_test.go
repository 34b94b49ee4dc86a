package e2e

import (
	"fmt"
	"os"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
)

// identified returns a source that responds with a word and the user that it runs as.
func identified(word string) string {
	return fmt.Sprintf(`package handlers

import (
	"fmt"
	"net/http"
	"os"
)

func Handler(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "%s %%d", os.Getuid()) }
`, word)
}

// Like restricted-v2 of OpenShift, the namespace requires users of a range and assigns them to
// containers without a user. Other policies add a container before that of the function, a
// label and a pull Secret. With a class that leaves the user to the cluster, a function serves,
// and rolls out without losing a request. Without it, the rejection is reported.
func TestPoliciesOfPods(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	assign := func(containers string) string {
		return `JSONPatch{op: "add", path: "/spec/` + containers + `/0/securityContext/runAsUser", value: 1000650000}`
	}
	unassigned := func(condition, patch string) string {
		return `?(!has(object.spec.securityContext.runAsUser)` + condition + ` ? optional.of(` + patch + `) : optional.none()),`
	}
	ns.afflict(unassigned("", assign("containers")) + unassigned(" && has(object.spec.initContainers)", assign("initContainers")) + `
		JSONPatch{op: "add", path: "/spec/securityContext/fsGroup", value: 1000650000},
		JSONPatch{op: "add", path: "/metadata/labels/team", value: "blue"},
		JSONPatch{op: "add", path: "/spec/imagePullSecrets", value: [{"name": "of-the-policy"}]},
		JSONPatch{op: "add", path: "/spec/containers/0", value: Object.spec.containers{
			name: "sidecar", image: "` + os.Getenv("MODPROXY_IMAGE") + `", securityContext: Object.spec.containers.securityContext{
				runAsUser: 1000650000, allowPrivilegeEscalation: false, capabilities: Object.spec.containers.securityContext.capabilities{drop: ["ALL"]}}}}`)
	ns.demandUsers(1000650000, 1000659999)
	class := &v1beta1.FunctionClass{ObjectMeta: metav1.ObjectMeta{Name: ns.name}}
	class.Spec.PodUser = &v1beta1.PodUser{}
	createInCluster(t, class)

	for _, fn := range []*v1beta1.Function{
		shared("shared", identified("old"), serverPort(9000)), // the sidecar has 8080
		inPod("in-pod", identified("old"), serverPort(9000)),
	} {
		ns.becomes(ns.apply(fn), "told that its user is refused", func(fn *v1beta1.Function) bool {
			return strings.Contains(condition(fn, v1beta1.ConditionReady).Message, "runAsUser must be in the range")
		})
		fn = ns.ready(ns.change(fn, func(spec *v1beta1.FunctionSpec) { spec.ClassName = class.Name }))
		ns.answers(fn, "old 1000650000")
		stop := ns.load(fn)
		fn = ns.ready(ns.change(fn, source(identified("new"))))
		ns.answers(fn, "new 1000650000")
		stop()
		ns.alwaysServed(fn)
		pod := ns.pod(fn)
		if len(pod.Spec.Containers) != 2 || pod.Labels["team"] != "blue" || len(pod.Spec.ImagePullSecrets) != 1 {
			t.Errorf("the policies have not changed the pod:\n%s", yamlOf(pod))
		}
	}
}

// demandUsers rejects pods of the namespace with other users.
func (ns *namespace) demandUsers(from, to int) {
	ns.t.Helper()
	policy := &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: ns.name}}
	policy.Spec = admissionv1.ValidatingAdmissionPolicySpec{
		FailurePolicy: new(admissionv1.Fail),
		MatchConstraints: &admissionv1.MatchResources{
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: ns.name}},
			ResourceRules:     []admissionv1.NamedRuleWithOperations{newPods},
		},
		Validations: []admissionv1.Validation{{
			Message: "runAsUser must be in the range of the namespace",
			Expression: fmt.Sprintf(`(object.spec.containers + (has(object.spec.initContainers) ? object.spec.initContainers : [])).all(c,
				[has(c.securityContext.runAsUser) ? c.securityContext.runAsUser : has(object.spec.securityContext.runAsUser) ? object.spec.securityContext.runAsUser : 0].all(
					user, user >= %d && user <= %d))`, from, to),
		}},
	}
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: ns.name}}
	binding.Spec = admissionv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: ns.name, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny}}
	createInCluster(ns.t, policy)
	createInCluster(ns.t, binding)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns.name, Name: "stranger", Labels: map[string]string{"a": "b"}, Annotations: map[string]string{"a": "b"}}}
	pod.Spec = restrictedPod()
	pod.Spec.SecurityContext.RunAsUser = new(int64(65532))
	ns.eventually("other users are rejected", func() error {
		err := ns.client.Create(ns.t.Context(), pod.DeepCopy(), client.DryRunAll)
		if err == nil || !strings.Contains(err.Error(), "runAsUser") {
			return fmt.Errorf("got %v", err) //nolint:errorlint // it may be nil
		}
		return nil
	})
}
