package function_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/desired"
	"goless.io/operator/internal/settings"
)

// asOperator is a client with the account of the operator: a stolen token.
func asOperator(t *testing.T) client.Client {
	t.Helper()
	config := rest.CopyConfig(server)
	config.Impersonate.UserName = operatorAccount
	c, err := client.New(config, client.Options{Scheme: cluster.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// forged is the Deployment of a Function in the hands of somebody who has the
// operator's account.
func forged(t *testing.T, fn *v1beta1.Function, forge func(*appsv1.Deployment)) *appsv1.Deployment {
	t.Helper()
	s := configured
	s.Build.Modules.Netrc = settings.Key{Name: "modules", Key: "netrc"}
	text, err := json.Marshal(desired.Deployment(fn, s, "", nil))
	if err != nil {
		t.Fatal(err)
	}
	var d appsv1.Deployment
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	forge(&d)
	return &d
}

// The fence lets through what Functions become, and nothing else: not even when
// the writer has the operator's account.
func TestFenceOfDeployments(t *testing.T) {
	thief := asOperator(t)
	fn := create(t, "fenced", everyField)
	await(t, fn, fn.Name, &appsv1.Deployment{}, nil)
	fn = get(t, fn)
	fn.Spec.Function = "-- go.mod --\nmodule m\n" // of the name of another Function, so that it can be created
	pod := func(change func(*corev1.PodSpec)) func(*appsv1.Deployment) {
		return func(d *appsv1.Deployment) { change(&d.Spec.Template.Spec) }
	}
	create := func(forge func(*appsv1.Deployment)) error {
		other := fn.DeepCopy()
		other.Name = "other"
		return thief.Create(t.Context(), forged(t, other, forge), client.DryRunAll)
	}
	eventually(t, "the fence stands", func() bool {
		return apierrors.IsInvalid(create(func(d *appsv1.Deployment) { d.OwnerReferences = nil }))
	})
	if err := create(func(*appsv1.Deployment) {}); err != nil {
		t.Errorf("what a Function becomes is refused: %v", err)
	}
	for name, test := range map[string]struct {
		forge func(*appsv1.Deployment)
		want  string
	}{
		"Nobodys":       {func(d *appsv1.Deployment) { d.OwnerReferences = nil }, "only Deployments of Functions"},
		"NoController":  {func(d *appsv1.Deployment) { d.OwnerReferences[0].Controller = nil }, "only Deployments of Functions"},
		"Finalizer":     {func(d *appsv1.Deployment) { d.Finalizers = []string{"example.com/x"} }, "whose end waits"},
		"PodFinalizer":  {func(d *appsv1.Deployment) { d.Spec.Template.Finalizers = []string{"example.com/x"} }, "whose end waits"},
		"SomebodyElses": {func(d *appsv1.Deployment) { d.OwnerReferences[0].Kind = "Job" }, "only Deployments of Functions"},
		"HostPath": {pod(func(p *corev1.PodSpec) {
			p.Volumes[1].VolumeSource = corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}
		}), "only volumes"},
		"Secret": {pod(func(p *corev1.PodSpec) {
			p.Volumes[1].VolumeSource = corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "s"}}
		}), "only volumes"},
		"Netrc":          {pod(func(p *corev1.PodSpec) { p.Containers[0].VolumeMounts[0].Name = "netrc" }), "for the builder alone"},
		"ServiceAccount": {pod(func(p *corev1.PodSpec) { p.ServiceAccountName = "admin" }), "no service account"},
		"Token":          {pod(func(p *corev1.PodSpec) { p.AutomountServiceAccountToken = new(true) }), "no service account"},
		"ForeignImage":   {pod(func(p *corev1.PodSpec) { p.Containers[0].Image = "evil/launch:1" }), "only the images"},
		"SimilarImage":   {pod(func(p *corev1.PodSpec) { p.Containers[0].Image = "example/launcher" }), "only the images"},
		"SneakyImage":    {pod(func(p *corev1.PodSpec) { p.Containers[0].Image = "evil.example:5000/example/launch" }), "only the images"},
		"HostNetwork":    {pod(func(p *corev1.PodSpec) { p.HostNetwork = true }), "nothing of the node"},
		"HostPID":        {pod(func(p *corev1.PodSpec) { p.HostPID = true }), "nothing of the node"},
		"HostPort":       {pod(func(p *corev1.PodSpec) { p.Containers[0].Ports[0].HostPort = 80 }), "nothing of the node"},
		"NodeName":       {pod(func(p *corev1.PodSpec) { p.NodeName = "control-plane" }), "nothing of the node"},
		"Privileged": {pod(func(p *corev1.PodSpec) {
			p.Containers[0].SecurityContext.Privileged, p.Containers[0].SecurityContext.AllowPrivilegeEscalation = new(true), nil
		}), "without privileges"},
		"Capability": {pod(func(p *corev1.PodSpec) {
			p.InitContainers[0].SecurityContext.Capabilities.Add = []corev1.Capability{"SYS_ADMIN"}
		}), "without privileges"},
		"Writable": {pod(func(p *corev1.PodSpec) { p.Containers[0].SecurityContext.ReadOnlyRootFilesystem = nil }), "without privileges"},
		"Root":     {pod(func(p *corev1.PodSpec) { p.SecurityContext.RunAsNonRoot = nil }), "not as root"},
		"RootUser": {pod(func(p *corev1.PodSpec) { p.Containers[0].SecurityContext.RunAsUser = new(int64(0)) }), "without privileges"},
		"Command":  {pod(func(p *corev1.PodSpec) { p.Containers[0].Command = []string{"sh"} }), "no command"},
		"Sidecar": {pod(func(p *corev1.PodSpec) {
			p.Containers = append(p.Containers, p.Containers[0])
			p.Containers[1].Name = "more"
			p.Containers[1].Ports = nil
		}), "one container"},
		"Priority":    {pod(func(p *corev1.PodSpec) { p.PriorityClassName = "system-node-critical" }), "no say in where"},
		"Tolerations": {pod(func(p *corev1.PodSpec) { p.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}} }), "no say in where"},
		"Node":        {pod(func(p *corev1.PodSpec) { p.NodeSelector = map[string]string{"a": "b"} }), "no say in where"},
		"Scheduler":   {pod(func(p *corev1.PodSpec) { p.SchedulerName = "own" }), "no say in where"},
		"PullSecrets": {pod(func(p *corev1.PodSpec) { p.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "s"}} }), "no say in where"},
		"UserOfPod":   {pod(func(p *corev1.PodSpec) { p.SecurityContext.RunAsUser = new(int64(0)) }), "the security of the pod"},
		"Groups":      {pod(func(p *corev1.PodSpec) { p.SecurityContext.SupplementalGroups = []int64{0} }), "the security of the pod"},
		"Sysctls": {pod(func(p *corev1.PodSpec) {
			p.SecurityContext.Sysctls = []corev1.Sysctl{{Name: "kernel.shm_rmid_forced", Value: "1"}}
		}), "the security of the pod"},
		"SELinux": {pod(func(p *corev1.PodSpec) {
			p.Containers[0].SecurityContext.SELinuxOptions = &corev1.SELinuxOptions{Type: "spc_t"}
		}), "without privileges"},
		"ProbeOfHost": {pod(func(p *corev1.PodSpec) { p.Containers[0].LivenessProbe.HTTPGet.Host = "169.254.169.254" }), "the kubelet asks"},
		"ProbeByExec": {pod(func(p *corev1.PodSpec) {
			p.Containers[0].LivenessProbe.ProbeHandler = corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"sh"}}}
		}), "the kubelet asks"},
		"SecretOfBuilder": {pod(func(p *corev1.PodSpec) {
			p.InitContainers[0].EnvFrom = []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "s"}}}}
		}), "reaches the builder"},
		"Selector": {func(d *appsv1.Deployment) {
			d.Spec.Selector.MatchLabels = map[string]string{"app": "bank"}
			d.Spec.Template.Labels = map[string]string{"app": "bank"}
		}, "the selector"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := create(test.forge); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want a refusal that says %q", err, test.want)
			}
		})
	}
}

// What somebody else has added to a function's objects stays, and is no obstacle
// to the operator.
func TestFenceLeavesAdditionsAlone(t *testing.T) {
	fn := create(t, "added", func(*v1beta1.Function) {})
	deployment := await(t, fn, fn.Name, &appsv1.Deployment{}, ownedByApply)
	service := await(t, fn, "svc", &corev1.Service{}, ownedByApply)
	before, beforeService := client.MergeFrom(deployment.DeepCopy()), client.MergeFrom(service.DeepCopy())
	pod := &deployment.Spec.Template.Spec
	pod.Containers = append(pod.Containers, corev1.Container{Name: "agent", Image: "somebody/agent", Command: []string{"agent"}})
	pod.Volumes = append(pod.Volumes, corev1.Volume{Name: "host", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/var/log"}}})
	service.Spec.ExternalIPs = []string{"203.0.113.1"}
	if err := errors.Join(cluster.Patch(t.Context(), deployment, before), cluster.Patch(t.Context(), service, beforeService)); err != nil {
		t.Fatal(err)
	}
	change(t, fn, func(fn *v1beta1.Function) { fn.Spec.Concurrency, fn.Spec.ServerPort = 3, 9001 })
	await(t, fn, fn.Name, deployment, func(d *appsv1.Deployment) bool {
		c := d.Spec.Template.Spec.Containers
		return len(c) == 2 && c[1].Name == "agent" && slices.Contains(c[0].Env, corev1.EnvVar{Name: "REQUEST_CONCURRENCY", Value: "3"})
	})
	await(t, fn, "svc", service, func(s *corev1.Service) bool { return s.Spec.Ports[0].Port == 9001 && len(s.Spec.ExternalIPs) == 1 })
}

// What belongs to nobody, or to somebody else, is out of reach.
func TestFenceOfOthersObjects(t *testing.T) {
	thief := asOperator(t)
	namespace := newNamespace(t)
	meta := metav1.ObjectMeta{Name: "bank", Namespace: namespace}
	labels := map[string]string{"app": "bank"}
	theirs := []client.Object{
		&corev1.ConfigMap{ObjectMeta: meta},
		&corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 1}}}},
		&appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
			},
		}},
	}
	for _, object := range theirs {
		if err := cluster.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
		adopt := client.MergeFrom(object.DeepCopyObject().(client.Object))
		object.SetOwnerReferences([]metav1.OwnerReference{{
			APIVersion: "goless.io/v1beta1", Kind: "Function", Name: "bank", UID: "1", Controller: new(true),
		}})
		if err := thief.Patch(t.Context(), object, adopt, client.DryRunAll); !refusedByFence(err) {
			t.Errorf("adopting %T: %v", object, err)
		}
		if _, isDeployment := object.(*appsv1.Deployment); isDeployment {
			continue // which the operator has no right to delete
		}
		if err := thief.Delete(t.Context(), object, client.DryRunAll); !refusedByFence(err) {
			t.Errorf("deleting %T: %v", object, err)
		}
	}

	fn := create(t, "open", func(fn *v1beta1.Function) { fn.Namespace = namespace })
	service := await(t, fn, "svc", &corev1.Service{}, nil)
	for name, change := range map[string]func(*corev1.ServiceSpec){
		"external":  func(s *corev1.ServiceSpec) { s.ExternalIPs = []string{"203.0.113.1"} },
		"node port": func(s *corev1.ServiceSpec) { s.Type = corev1.ServiceTypeNodePort },
		"selector":  func(s *corev1.ServiceSpec) { s.Selector = labels },
	} {
		changed := service.DeepCopy()
		change(&changed.Spec)
		if err := thief.Patch(t.Context(), changed, client.MergeFrom(service), client.DryRunAll); !refusedByFence(err) {
			t.Errorf("a Service with another %s: %v", name, err)
		}
	}
}

// What a Function has beside its Deployment has no other shape either.
func TestFenceOfChildren(t *testing.T) {
	thief, namespace := asOperator(t), newNamespace(t)
	ours := map[string]string{desired.FunctionLabel: "bank"}
	meta := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: name, Namespace: namespace, Labels: ours, OwnerReferences: []metav1.OwnerReference{{
			APIVersion: "goless.io/v1beta1", Kind: "Function", Name: "bank", UID: "1", Controller: new(true),
		}}}
	}
	source := func(name, key string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: meta(name), Immutable: new(true), Data: map[string]string{key: "x"}}
	}
	budget := func(most int32, selector map[string]string) *policyv1.PodDisruptionBudget {
		return &policyv1.PodDisruptionBudget{ObjectMeta: meta("bank"), Spec: policyv1.PodDisruptionBudgetSpec{
			MaxUnavailable: new(intstr.FromInt32(most)), Selector: &metav1.LabelSelector{MatchLabels: selector},
		}}
	}
	network := func(selector map[string]string) *networkingv1.NetworkPolicy {
		return &networkingv1.NetworkPolicy{ObjectMeta: meta("bank"), Spec: networkingv1.NetworkPolicySpec{PodSelector: metav1.LabelSelector{MatchLabels: selector}}}
	}
	for _, allowed := range []client.Object{source("bank-0123456789", "handler.go"), budget(1, ours), network(ours)} {
		if err := thief.Create(t.Context(), allowed, client.DryRunAll); err != nil {
			t.Errorf("%T is refused: %v", allowed, err)
		}
	}
	unlabelled := source("bank-0123456789", "handler.go")
	unlabelled.Labels = nil
	endless := source("bank-0123456789", "handler.go")
	endless.Finalizers = []string{"example.com/x"}
	for name, refused := range map[string]client.Object{
		"name of a ConfigMap": source("kube-root-ca.crt", "handler.go"), "key of a ConfigMap": source("bank-0123456789", "ca.crt"),
		"no label": unlabelled, "no end": endless, "budget of nothing": budget(0, ours), "budget of others": budget(1, map[string]string{}),
		"network of all": network(nil), "network of others": network(map[string]string{"app": "bank"}),
	} {
		if err := thief.Create(t.Context(), refused, client.DryRunAll); !refusedByFence(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// While the operator's Deployment is missing, nobody else is kept from anything,
// and the operator has its fence all the same.
func TestFenceWithoutTheOperator(t *testing.T) {
	operator := &appsv1.Deployment{}
	if err := cluster.Get(t.Context(), client.ObjectKey{Namespace: "goless-system", Name: "goless-operator"}, operator); err != nil {
		t.Fatal(err)
	}
	if err := cluster.Delete(t.Context(), operator); err != nil {
		t.Fatal(err)
	}
	again := func(options ...client.CreateOption) error {
		return cluster.Create(t.Context(), &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Name: operator.Name, Namespace: operator.Namespace, Labels: operator.Labels}, Spec: operator.Spec,
		}, options...)
	}
	fn := create(t, "lonely", func(*v1beta1.Function) {})
	fn = get(t, fn)
	fn.Name = "other"
	thief := asOperator(t)
	eventually(t, "the API server knows that it is gone", func() bool {
		foreign := forged(t, fn, func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = "somebody/else" })
		return thief.Create(t.Context(), foreign, client.DryRunAll) == nil
	})
	if err := thief.Create(t.Context(), forged(t, fn, func(d *appsv1.Deployment) { d.OwnerReferences = nil }), client.DryRunAll); !refusedByFence(err) {
		t.Errorf("the fence has fallen: %v", err)
	}
	if err := again(); err != nil {
		t.Errorf("the operator cannot be installed: %v", err)
	}
}

func refusedByFence(err error) bool {
	return apierrors.IsInvalid(err) && strings.Contains(err.Error(), "ValidatingAdmissionPolicy")
}
