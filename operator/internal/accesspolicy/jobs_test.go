package accesspolicy_test

import (
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/internal/apiservertest"
	"goless.io/operator/internal/desired"
)

// The operator can create the Job that runs the tests of a Function, and cannot change it. The pods
// of a Job are restricted like those of functions; the other tests of this package cover that.
func TestAccessPolicyForJobs(t *testing.T) {
	operator, namespace := operatorClient(t), apiservertest.NewNamespace(t, cluster)
	fn := sampleFunction(namespace)
	fn.Name = strings.Repeat("a", 50) // longer than its part in the name of the Job
	binary := &desired.Binary{Service: "https://build", Key: "k", Capability: "c", PublicKey: "p"}
	job := func(forge func(*batchv1.Job)) *batchv1.Job {
		job := convert(t, desired.TestJob(fn, installed, binary), &batchv1.Job{})
		forge(job)
		return job
	}
	pod := func(forge func(*corev1.PodSpec)) func(*batchv1.Job) {
		return func(job *batchv1.Job) { forge(&job.Spec.Template.Spec) }
	}
	for name, forge := range map[string]func(*batchv1.Job){
		"Nobodys":      func(job *batchv1.Job) { job.OwnerReferences = nil },
		"OfAnother":    func(job *batchv1.Job) { job.OwnerReferences[0].Name = "another" },
		"OfAJob":       func(job *batchv1.Job) { job.OwnerReferences[0].Kind = "Job" },
		"AnotherName":  func(job *batchv1.Job) { job.Name = "another-tests-0123456789" },
		"OtherLabel":   func(job *batchv1.Job) { job.Labels["goless.io/function"] = "another" },
		"Serves":       func(job *batchv1.Job) { job.Spec.Template.Labels["goless.io/function"] = fn.Name },
		"OfOtherTests": func(job *batchv1.Job) { job.Spec.Template.Labels["goless.io/tests"] = "another" },
		"ForeignLabel": func(job *batchv1.Job) { job.Spec.Template.Labels["app"] = "bank" },
		"Parallel":     func(job *batchv1.Job) { job.Spec.Parallelism = new(int32(2)) },
		"Often":        func(job *batchv1.Job) { job.Spec.Completions = new(int32(2)) },
		"Again":        func(job *batchv1.Job) { job.Spec.BackoffLimit = new(int32(3)) },
		"NoDeadline":   func(job *batchv1.Job) { job.Spec.ActiveDeadlineSeconds = nil },
		"LateDeadline": func(job *batchv1.Job) { job.Spec.ActiveDeadlineSeconds = new(int64(3901)) },
		"Restarts": func(job *batchv1.Job) {
			job.Spec.PodFailurePolicy, job.Spec.Template.Spec.RestartPolicy = nil, corev1.RestartPolicyOnFailure
		},
		"InitContainer": pod(func(p *corev1.PodSpec) {
			p.InitContainers = []corev1.Container{p.Containers[0]}
			p.InitContainers[0].Name = "build"
		}),
		"HostNetwork": pod(func(p *corev1.PodSpec) { p.HostNetwork = true }),
		"Account":     pod(func(p *corev1.PodSpec) { p.ServiceAccountName = "admin" }),
		"Token":       pod(func(p *corev1.PodSpec) { p.AutomountServiceAccountToken = nil }),
		"Root":        pod(func(p *corev1.PodSpec) { p.SecurityContext.RunAsNonRoot = nil }),
		"Image":       pod(func(p *corev1.PodSpec) { p.Containers[0].Image = "evil/launch:1" }),
		"Command":     pod(func(p *corev1.PodSpec) { p.Containers[0].Command = []string{"sh"} }),
	} {
		if err := operator.Create(t.Context(), job(forge), client.DryRunAll); !rejectedByPolicy(err) {
			t.Errorf("%s: %v", name, err)
		}
	}

	created := job(func(*batchv1.Job) {})
	if err := operator.Create(t.Context(), created); err != nil {
		t.Fatal(err)
	}
	changed := created.DeepCopy()
	changed.Labels["goless.io/a"] = "b"
	if err := operator.Patch(t.Context(), changed, client.MergeFrom(created), client.DryRunAll); !rejectedByPolicy(err) {
		t.Errorf("changing a Job: %v", err)
	}
	foreign := job(func(job *batchv1.Job) { job.Name, job.OwnerReferences = "bank", nil })
	if err := cluster.Create(t.Context(), foreign); err != nil {
		t.Fatal(err)
	}
	if err := operator.Delete(t.Context(), foreign, client.DryRunAll); !rejectedByPolicy(err) {
		t.Errorf("deleting a Job of another owner: %v", err)
	}
	if err := operator.Delete(t.Context(), created, client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
		t.Error(err)
	}
}

// The operator can create a NetworkPolicy for the pods that run tests, with its own name and no other
// selector.
func TestAccessPolicyForTestPolicy(t *testing.T) {
	operator, namespace := operatorClient(t), apiservertest.NewNamespace(t, cluster)
	for name, forge := range map[string]func(*networkingv1.NetworkPolicy){
		"":           func(*networkingv1.NetworkPolicy) {},
		"Name":       func(p *networkingv1.NetworkPolicy) { p.Name = "forged" },
		"Selector":   func(p *networkingv1.NetworkPolicy) { p.Spec.PodSelector.MatchLabels["goless.io/tests"] = "another" },
		"Everything": func(p *networkingv1.NetworkPolicy) { p.Spec.PodSelector = metav1.LabelSelector{} },
	} {
		policy := convert(t, desired.TestPolicy(sampleFunction(namespace), installed), &networkingv1.NetworkPolicy{})
		forge(policy)
		if err := operator.Create(t.Context(), policy, client.DryRunAll); (err == nil) != (name == "") || err != nil && !rejectedByPolicy(err) {
			t.Errorf("%q: %v", name, err)
		}
	}
}
