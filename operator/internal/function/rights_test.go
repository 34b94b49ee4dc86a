package function_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/desired"
	"goless.io/operator/internal/status"
)

// untold are rights without which no condition can say so, and why: by the verb and
// the resource, or by the verb alone.
var untold = map[string]string{
	"list":                        "a watch begins with what there is, see TestMissingList",
	"watch":                       "see TestLostSight",
	"patch functions/status":      "nothing can be told",
	"update functions/finalizers": "only an admission plugin asks for it that few clusters have",
	"create events":               "Functions fare well without",
	"patch events":                "Functions fare well without",
	"create tokenreviews":         "only the metrics need it",
	"create subjectaccessreviews": "only the metrics need it",
}

// needs make a Function for which the operator needs a right on a resource. mend
// removes what they have laid in its way.
var needs = map[string]func(t *testing.T, resource string) (fn *v1beta1.Function, mend func()){
	"create": needsToWrite,
	"patch":  needsToWrite,
	"get":    needsToLook,
	"delete": needsToDelete,
}

// Without one of its rights the operator says which, and what to do, and goes on where
// it can; when it has the right again, all is well. Each right of each rule is tried.
func TestMissingRights(t *testing.T) {
	var role rbacv1.ClusterRole
	if err := cluster.Get(t.Context(), client.ObjectKey{Name: "goless-operator"}, &role); err != nil {
		t.Fatal(err)
	}
	for _, rule := range role.Rules {
		for _, resource := range rule.Resources {
			for _, verb := range rule.Verbs {
				if untold[verb] == "" && untold[verb+" "+resource] == "" {
					t.Run(verb+" "+resource, func(t *testing.T) { testMissing(t, verb, resource) })
				}
			}
		}
	}
}

// What may not be seen is told too, before anything is reconciled, and no longer when
// it may be. While another replica leads, it is that one's to tell.
func TestMissingSight(t *testing.T) {
	give := take(t, &rbacv1.ClusterRole{ObjectMeta: itself}, "configmaps", "list", "watch")
	ended := hold(t, 12*time.Second)
	exchangeOperator(t, configured, &writeLog{})
	t.Cleanup(give) // before the operator ends: one without caches does not
	fn := create(t, "unseen", func(*v1beta1.Function) {})
	says(t, fn, `cannot watch resource "configmaps"`)
	select {
	case <-ended:
	default:
		t.Error("told while another one leads")
	}
	give()
	awaitReady(t, fn, v1beta1.ReasonBuilding)
}

// What the operator may see no longer is told when a watch ends, and that it may again
// too. Here watches end every two seconds, and not after minutes.
func TestLostSight(t *testing.T) {
	log := &writeLog{}
	log.answer = func(r *http.Request) (*http.Response, error) {
		if query := r.URL.Query(); query.Has("timeoutSeconds") {
			query.Set("timeoutSeconds", "2")
			r.URL.RawQuery = query.Encode()
		}
		return nil, nil
	}
	exchangeOperator(t, configured, log)
	fn := create(t, "blinded", func(*v1beta1.Function) {})
	awaitReady(t, fn, v1beta1.ReasonBuilding)
	give := take(t, &rbacv1.ClusterRole{ObjectMeta: itself}, "configmaps", "list", "watch")
	says(t, fn, `cannot watch resource "configmaps"`)
	give()
	awaitReady(t, fn, v1beta1.ReasonBuilding)
}

// What another replica has told of what it may not see, too late, is mended.
func TestToldTooLate(t *testing.T) {
	fn := create(t, "told", func(*v1beta1.Function) {})
	awaitReady(t, fn, v1beta1.ReasonBuilding)
	now := get(t, fn)
	late := now.DeepCopy()
	late.Status, _ = status.Unseen(now, "the operator lacks a right that deploy/20-rbac.yaml gives it, or what you use of deploy/optional: apply that again: x")
	if err := cluster.Status().Patch(t.Context(), late, client.MergeFrom(now)); err != nil {
		t.Fatal(err)
	}
	if cmp.Equal(late.Status, now.Status) {
		t.Fatal("nothing was told")
	}
	awaitReady(t, fn, v1beta1.ReasonBuilding)
}

func TestMissingList(t *testing.T) {
	take(t, &rbacv1.ClusterRole{ObjectMeta: itself}, "pods", "list")
	exchangeOperator(t, configured, &writeLog{})
	awaitReady(t, create(t, "unlisted", func(*v1beta1.Function) {}), v1beta1.ReasonBuilding)
}

// Without a lease nobody leads, and nobody looks at what is new. That is told why.
func TestMissingLease(t *testing.T) {
	seen := create(t, "seen", func(*v1beta1.Function) {})
	awaitReady(t, seen, v1beta1.ReasonBuilding)
	for _, verb := range []string{"get", "create", "update"} {
		t.Run(verb, func(t *testing.T) {
			unheld(t)
			if verb == "update" {
				free := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "goless-system", Name: "goless-operator"}}
				if err := cluster.Create(t.Context(), free); err != nil {
					t.Fatal(err)
				}
			}
			role := metav1.ObjectMeta{Namespace: "goless-system", Name: "goless-leader-election"}
			give := take(t, &rbacv1.Role{ObjectMeta: role}, "leases", verb)
			exchangeOperator(t, configured, &writeLog{}, elected)
			fn := create(t, "leaderless", func(*v1beta1.Function) {})
			says(t, fn, fmt.Sprintf(`cannot %s resource "leases"`, verb))
			if ready := awaitReady(t, seen, v1beta1.ReasonBuilding); strings.Contains(ready.Message, "leases") {
				t.Errorf("what was looked at before says %q", ready.Message)
			}
			give()
			awaitReady(t, fn, v1beta1.ReasonBuilding)
		})
	}
}

// hold holds the lease for some time, as another replica.
func hold(t *testing.T, during time.Duration) (ended chan struct{}) {
	t.Helper()
	unheld(t)
	held := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "goless-system", Name: "goless-operator"}}
	if err := cluster.Create(t.Context(), held); err != nil {
		t.Fatal(err)
	}
	ended = make(chan struct{})
	t.Cleanup(func() { <-ended; unheld(t) })
	held.Spec.HolderIdentity = new("another")
	go func() {
		defer close(ended)
		for end := time.Now().Add(during); time.Now().Before(end); time.Sleep(time.Second) {
			held.Spec.RenewTime = new(metav1.NowMicro())
			if err := cluster.Update(context.Background(), held); err != nil {
				t.Error(err)
			}
		}
	}()
	return ended
}

// unheld removes the lease.
func unheld(t *testing.T) {
	t.Helper()
	of := metav1.ObjectMeta{Namespace: "goless-system", Name: "goless-operator"}
	if err := client.IgnoreNotFound(cluster.Delete(context.Background(), &coordinationv1.Lease{ObjectMeta: of})); err != nil {
		t.Fatal(err)
	}
}

func testMissing(t *testing.T, verb, resource string) {
	need := needs[verb]
	if need == nil {
		t.Fatal("no condition is known to say that it is missing")
	}
	withPolicies := configured
	withPolicies.NetworkPolicy = true
	exchangeOperator(t, withPolicies, &writeLog{})
	restore := take(t, &rbacv1.ClusterRole{ObjectMeta: itself}, resource, verb)
	fn, mend := need(t, resource)
	says(t, fn, fmt.Sprintf("cannot %s resource %q", verb, resource))
	restore()
	mend()
	awaitReady(t, fn, v1beta1.ReasonBuilding)
}

func needsToWrite(t *testing.T, _ string) (*v1beta1.Function, func()) {
	return create(t, "poor", func(fn *v1beta1.Function) { fn.Spec.Replicas = new(int32(2)) }), func() {}
}

// needsToLook makes one whose names somebody else has. To see whose an object is takes
// a look at it.
func needsToLook(t *testing.T, resource string) (*v1beta1.Function, func()) {
	object, namespace := foreign()[resource], newNamespace(t)
	if object == nil {
		t.Fatalf("nobody can have the name of what is made of %s", resource)
	}
	object.SetNamespace(namespace)
	if err := cluster.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	fn := create(t, "poor", func(fn *v1beta1.Function) { fn.Namespace, fn.Spec.Replicas = namespace, new(int32(2)) })
	return fn, func() {
		if err := cluster.Delete(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
}

// needsToDelete makes one that has no use any more for something that it has.
func needsToDelete(t *testing.T, resource string) (*v1beta1.Function, func()) {
	fn := create(t, "poor", func(fn *v1beta1.Function) { fn.Spec.Replicas = new(int32(2)) })
	await(t, fn, "svc", &corev1.Service{}, ownedByApply)
	await(t, fn, fn.Name, &policyv1.PodDisruptionBudget{}, ownedByApply)
	await(t, fn, fn.Name, &networkingv1.NetworkPolicy{}, ownedByApply)
	switch resource {
	case "services":
		change(t, fn, func(fn *v1beta1.Function) { fn.Spec.Service = "other" })
	case "configmaps":
		change(t, fn, func(fn *v1beta1.Function) { fn.Spec.Function += "// changed" })
	case "poddisruptionbudgets":
		change(t, fn, func(fn *v1beta1.Function) { fn.Spec.Replicas = new(int32(1)) })
	case "networkpolicies":
		exchangeOperator(t, configured, writes)
	default:
		t.Fatalf("nothing of %s is ever deleted", resource)
	}
	return fn, func() {}
}

// foreign are objects of somebody that have the names which the Function poor needs.
func foreign() map[string]client.Object {
	name := metav1.ObjectMeta{Name: "poor"}
	pod := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}}}
	pod.Spec.Containers = []corev1.Container{{Name: "c", Image: "example.com/c"}}
	return map[string]client.Object{
		"configmaps": &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "poor-" + desired.Revision(hello)}},
		"deployments": &appsv1.Deployment{ObjectMeta: name, Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: pod.Labels}, Template: pod,
		}},
		"services": &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: "svc"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
		},
		"poddisruptionbudgets": &policyv1.PodDisruptionBudget{ObjectMeta: name},
		"networkpolicies":      &networkingv1.NetworkPolicy{ObjectMeta: name},
	}
}

// says waits until Ready names what is missing, and the file that has it.
func says(t *testing.T, fn *v1beta1.Function, want string) {
	t.Helper()
	eventually(t, "Ready says "+want, func() bool {
		c := meta.FindStatusCondition(get(t, fn).Status.Conditions, v1beta1.ConditionReady)
		return c != nil && c.Reason == v1beta1.ReasonApplyFailed &&
			strings.Contains(c.Message, want) && strings.Contains(c.Message, "deploy/20-rbac.yaml")
	})
}

// itself is the role that has most of what the operator may.
var itself = metav1.ObjectMeta{Name: "goless-operator"}

// take takes rights of a role from the operator, and returns when the API server knows.
func take(t *testing.T, role client.Object, resource string, verbs ...string) (restore func()) {
	t.Helper()
	if err := cluster.Get(t.Context(), client.ObjectKeyFromObject(role), role); err != nil {
		t.Fatal(err)
	}
	whole := slices.Clone(*rulesOf(role))
	var rules []rbacv1.PolicyRule
	for _, rule := range whole {
		for _, one := range rule.Resources {
			split := *rule.DeepCopy()
			split.Resources = []string{one}
			if one == resource {
				split.Verbs = slices.DeleteFunc(split.Verbs, func(v string) bool { return slices.Contains(verbs, v) })
			}
			rules = append(rules, split)
		}
	}
	set := func(rules []rbacv1.PolicyRule, allowed bool) {
		*rulesOf(role) = rules
		role.SetResourceVersion("")
		if err := cluster.Update(context.Background(), role); err != nil { // in a clean-up too
			t.Fatal(err)
		}
		for _, verb := range verbs {
			eventually(t, "the API server knows the rights", func() bool { return may(t, verb, resource) == allowed })
		}
	}
	set(slices.DeleteFunc(rules, func(rule rbacv1.PolicyRule) bool { return len(rule.Verbs) == 0 }), false)
	restored := false
	restore = func() {
		if !restored {
			restored = true
			set(whole, true)
		}
	}
	t.Cleanup(restore)
	return restore
}

func rulesOf(role client.Object) *[]rbacv1.PolicyRule {
	if within, ok := role.(*rbacv1.Role); ok {
		return &within.Rules
	}
	return &role.(*rbacv1.ClusterRole).Rules
}

// may asks the API server what the operator is allowed to.
func may(t *testing.T, verb, resource string) bool {
	t.Helper()
	groups := map[string]string{"functions": "goless.io", "leases": "coordination.k8s.io", "deployments": "apps", "replicasets": "apps", "poddisruptionbudgets": "policy", "networkpolicies": "networking.k8s.io"}
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: operatorAccount,
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: verb, Group: groups[resource], Resource: resource, Namespace: "default",
		},
	}}
	if only := map[string]string{"secrets": "goless-build", "leases": "goless-operator"}[resource]; only != "" {
		review.Spec.ResourceAttributes.Namespace, review.Spec.ResourceAttributes.Name = "goless-system", only
	}
	if err := cluster.Create(context.Background(), review); err != nil {
		t.Fatal(err)
	}
	return review.Status.Allowed
}

// With the rights of single namespaces only the operator looks after these.
func TestNamespacedInstallation(t *testing.T) {
	binding := &rbacv1.ClusterRoleBinding{}
	if err := cluster.Get(t.Context(), client.ObjectKey{Name: "goless-operator"}, binding); err != nil {
		t.Fatal(err)
	}
	whole := binding.DeepCopy()
	whole.ResourceVersion, whole.UID = "", ""
	s := configured
	s.Namespaces = []string{newNamespace(t), newNamespace(t)}
	for _, namespace := range s.Namespaces {
		if err := installIn(t.Context(), namespace, "optional/namespaced.yaml"); err != nil {
			t.Fatal(err)
		}
	}
	if err := cluster.Delete(t.Context(), binding); err != nil {
		t.Fatal(err)
	}
	exchangeOperator(t, s, &writeLog{})
	t.Cleanup(func() {
		if err := cluster.Create(context.Background(), whole); err != nil {
			t.Error(err)
		}
	})
	for _, namespace := range s.Namespaces {
		fn := create(t, "namespaced", func(fn *v1beta1.Function) { fn.Namespace, fn.Spec.Replicas = namespace, new(int32(2)) })
		serve(t, fn)
	}
	outside := create(t, "outside", func(*v1beta1.Function) {})
	if exists(t, outside, outside.Name, &appsv1.Deployment{}) {
		t.Error("a Function in another namespace has a Deployment")
	}
}

// In single namespaces the operator has the rights of the ClusterRole, other than those
// to ask who may read its metrics.
func TestNamespacedRights(t *testing.T) {
	var whole rbacv1.ClusterRole
	var role rbacv1.Role
	if err := cluster.Get(t.Context(), client.ObjectKey{Name: "goless-operator"}, &whole); err != nil {
		t.Fatal(err)
	}
	namespace := newNamespace(t)
	if err := installIn(t.Context(), namespace, "optional/namespaced.yaml"); err != nil {
		t.Fatal(err)
	}
	if err := cluster.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "goless-operator"}, &role); err != nil {
		t.Fatal(err)
	}
	want := slices.DeleteFunc(whole.Rules, func(rule rbacv1.PolicyRule) bool {
		return slices.Equal(rule.Resources, []string{"tokenreviews"}) || slices.Equal(rule.Resources, []string{"subjectaccessreviews"})
	})
	if diff := cmp.Diff(want, role.Rules); diff != "" {
		t.Errorf("optional/namespaced.yaml differs from 20-rbac.yaml:\n%s", diff)
	}
}
