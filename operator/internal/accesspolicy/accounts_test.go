package accesspolicy_test

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/internal/apiservertest"
)

// open lets functions of a namespace run as an account.
func open(t *testing.T, namespace, account string) *rbacv1.RoleBinding {
	t.Helper()
	meta := metav1.ObjectMeta{Namespace: namespace, Name: "run-functions-as-" + account}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: meta,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "goless-system", Name: "goless-operator"}},
	}
	for _, object := range []client.Object{
		&rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"serviceaccounts"}, ResourceNames: []string{account}, Verbs: []string{"run-functions-as"}},
		}},
		binding,
	} {
		if err := cluster.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	return binding
}

// A Deployment can run as an account that a Role of its namespace allows, and as no other. If the
// Role is deleted, only the number of replicas can be changed.
func TestAccessPolicyForAccounts(t *testing.T) {
	operator, namespace, other := operatorClient(t), apiservertest.NewNamespace(t, cluster), apiservertest.NewNamespace(t, cluster)
	as := func(namespace, account string) *appsv1.Deployment {
		fn := sampleFunction(namespace)
		fn.Spec.Function, fn.Spec.ServiceAccountName = "package p\n", account // without modules
		return forged(t, fn, func(*appsv1.Deployment) {})
	}
	create := func(d *appsv1.Deployment) error { return operator.Create(t.Context(), d.DeepCopy(), client.DryRunAll) }
	refused := func(what string, err error) {
		t.Helper()
		if !rejectedByPolicy(err) || !strings.Contains(err.Error(), "spec.template.spec.serviceAccountName: functions in namespace") {
			t.Errorf("%s: %v", what, err)
		}
	}
	refused("an account that is not open", create(as(namespace, "reader")))
	binding := open(t, namespace, "reader")
	eventually(t, "allowed account accepted", func() bool { return create(as(namespace, "reader")) == nil })
	refused("another account", create(as(namespace, "writer")))
	refused("an account of that name elsewhere", create(as(other, "reader")))

	d := as(namespace, "reader")
	if err := operator.Create(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	if err := cluster.Delete(t.Context(), binding); err != nil {
		t.Fatal(err)
	}
	eventually(t, "account no longer allowed", func() bool { return rejectedByPolicy(create(as(namespace, "reader"))) })
	changed := d.DeepCopy()
	changed.Spec.Template.Annotations["goless.io/values"] = "other"
	refused("other pods", operator.Patch(t.Context(), changed, client.MergeFrom(d), client.DryRunAll))
	scale := &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: 3}}
	if err := operator.SubResource("scale").Patch(t.Context(), d, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":3}}`)), client.DryRunAll, client.WithSubResourceBody(scale)); err != nil {
		t.Errorf("updating the scale: %v", err)
	}
}

// The operator's account has no access to other objects: an attacker with its token cannot read
// Secrets, exec into containers or use another account.
func TestRBAC(t *testing.T) {
	operator, namespace := operatorClient(t), apiservertest.NewNamespace(t, cluster)
	meta := metav1.ObjectMeta{Namespace: namespace, Name: "bank"}
	template := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "bank"}},
		Spec:       corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
	selector := &metav1.LabelSelector{MatchLabels: template.Labels}
	subject := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "goless-system", Name: "goless-operator"}}
	pod := &corev1.Pod{ObjectMeta: meta, Spec: template.Spec}
	for _, object := range []client.Object{pod.DeepCopy(), &corev1.Secret{ObjectMeta: meta}, &corev1.ServiceAccount{ObjectMeta: meta}} {
		if err := cluster.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	create := func(object client.Object) error { return operator.Create(t.Context(), object, client.DryRunAll) }
	patch := func(object client.Object) error {
		return operator.Patch(t.Context(), object, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`)), client.DryRunAll)
	}
	get := func(namespace, name string, into client.Object) error {
		return operator.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, into)
	}
	secrets := &corev1.SecretList{}
	for what, err := range map[string]error{
		"a Secret":                           get(namespace, "bank", &corev1.Secret{}),
		"a Secret of the system":             get("kube-system", "any", &corev1.Secret{}),
		"a Secret beside its own":            get("goless-system", "any", &corev1.Secret{}),
		"the names of Secrets":               operator.List(t.Context(), secrets, client.InNamespace(namespace)),
		"all Secrets":                        operator.List(t.Context(), secrets),
		"a pod":                              create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "own"}, Spec: template.Spec}),
		"another pod's labels":               patch(pod),
		"an ephemeral container":             operator.SubResource("ephemeralcontainers").Update(t.Context(), pod.DeepCopy()),
		"the eviction of a pod":              operator.SubResource("eviction").Create(t.Context(), pod.DeepCopy(), &policyv1.Eviction{ObjectMeta: meta}),
		"the end of a pod":                   operator.Delete(t.Context(), pod.DeepCopy(), client.DryRunAll),
		"a ReplicaSet":                       create(&appsv1.ReplicaSet{ObjectMeta: meta, Spec: appsv1.ReplicaSetSpec{Selector: selector, Template: template}}),
		"a StatefulSet":                      create(&appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Selector: selector, Template: template}}),
		"a DaemonSet":                        create(&appsv1.DaemonSet{ObjectMeta: meta, Spec: appsv1.DaemonSetSpec{Selector: selector, Template: template}}),
		"a ReplicationController":            create(&corev1.ReplicationController{ObjectMeta: meta, Spec: corev1.ReplicationControllerSpec{Selector: template.Labels, Template: &template}}),
		"a CronJob":                          create(&batchv1.CronJob{ObjectMeta: meta, Spec: batchv1.CronJobSpec{Schedule: "* * * * *", JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: template}}}}),
		"a PodTemplate":                      create(&corev1.PodTemplate{ObjectMeta: meta, Template: template}),
		"a ServiceAccount":                   create(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "own"}}),
		"the annotations of an account":      patch(&corev1.ServiceAccount{ObjectMeta: meta}),
		"a token of an account":              operator.SubResource("token").Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: meta}, &authenticationv1.TokenRequest{}),
		"a token of the system's account":    operator.SubResource("token").Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "default"}}, &authenticationv1.TokenRequest{}),
		"a Role that opens all accounts":     create(&rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"serviceaccounts"}, Verbs: []string{"run-functions-as"}}}}),
		"a RoleBinding":                      create(&rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "admin"}, Subjects: subject}),
		"a ClusterRole":                      create(&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "bank"}}),
		"a ClusterRoleBinding":               create(&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "bank"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"}, Subjects: subject}),
		"its own ClusterRole":                patch(&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "goless-operator"}}),
		"the labels of a namespace":          patch(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}),
		"a namespace":                        create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "bank"}}),
		"a node":                             get("", "any", &corev1.Node{}),
		"a volume":                           create(&corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "bank"}}),
		"a claim":                            create(&corev1.PersistentVolumeClaim{ObjectMeta: meta}),
		"foreign Endpoints":                  create(&corev1.Endpoints{ObjectMeta: meta}), //nolint:staticcheck // still served
		"a ResourceQuota":                    create(&corev1.ResourceQuota{ObjectMeta: meta}),
		"a LimitRange":                       create(&corev1.LimitRange{ObjectMeta: meta}),
		"the ConfigMap of certificates":      operator.Update(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "kube-root-ca.crt"}}, client.DryRunAll),
		"an image pull secret of an account": operator.Update(t.Context(), &corev1.ServiceAccount{ObjectMeta: meta, ImagePullSecrets: []corev1.LocalObjectReference{{Name: "s"}}}, client.DryRunAll),
	} {
		if !apierrors.IsForbidden(err) {
			t.Errorf("%s: %v, want Forbidden", what, err)
		}
	}
}
