package controllers_test

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
	"goless.io/trigger/api/v1alpha1"
	"goless.io/trigger/internal/stream"
)

func natsTrigger(namespace string) *v1alpha1.NATSTrigger {
	return &v1alpha1.NATSTrigger{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "orders"},
		Spec: v1alpha1.NATSTriggerSpec{
			StreamSpec: v1alpha1.StreamSpec{FunctionRef: v1alpha1.FunctionReference{Name: "report"}},
			Servers:    []v1alpha1.NATSServer{"nats://nats.example.com:4222"}, Stream: "ORDERS", Subject: "orders.>", DeadLetter: "dead.orders",
			Authentication: &v1alpha1.NATSAuthentication{User: "shop", Password: &v1alpha1.SecretKey{Name: "nats", Key: "password"}},
			TLS:            &v1alpha1.StreamTLS{CA: &v1alpha1.SecretKey{Name: "nats", Key: "ca.crt"}, SecretName: "certificate"},
		},
	}
}

func deploymentOf(trigger client.Object) *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: trigger.GetNamespace(), Name: trigger.GetName() + "-trigger"}}
}

// A trigger has a Deployment while its Function exists, and reports the status of its pod.
func TestNATSTrigger(t *testing.T) {
	t.Parallel()
	pod := newConsumingPod(t)
	trigger := natsTrigger(newNamespace(t))
	create(t, trigger)
	await(t, trigger, v1alpha1.ConditionReady, v1alpha1.ReasonFunctionNotFound)
	deployment := deploymentOf(trigger)
	read(t, deployment)
	if *deployment.Spec.Replicas != 0 {
		t.Error("it takes events for a Function that does not exist")
	}
	fn := newFunction(t, trigger.Namespace)
	await(t, trigger, v1alpha1.ConditionReady, v1alpha1.ReasonConsumerNotReady)
	eventually(t, "there is a pod to be", func() bool { read(t, deployment); return *deployment.Spec.Replicas == 1 })
	if !metav1.IsControlledBy(deployment, trigger) {
		t.Error("the Deployment does not belong to the trigger, and would stay when that is deleted")
	}
	if args := deployment.Spec.Template.Spec.Containers[0].Args; !slices.Contains(args, "--url="+fn.Status.URL+"/") {
		t.Errorf("the arguments are %q", args)
	}

	missing := stream.Problem{Reason: stream.NotConnected, Message: "spec.authentication.password: the Secret does not exist"}
	pod.says(stream.Status{Problems: []stream.Problem{missing}})
	pod.running(t, trigger, false)
	if message := await(t, trigger, v1alpha1.ConditionReady, v1alpha1.ReasonNotConnected); message != missing.Message {
		t.Errorf("the message is %q", message)
	}
	pod.says(stream.Status{})
	pod.running(t, trigger, true)
	await(t, trigger, v1alpha1.ConditionReady, v1alpha1.ReasonReady)
	await(t, trigger, v1alpha1.ConditionDelivered, v1alpha1.ReasonNoEvents)

	blocked := stream.Problem{Reason: stream.Blocked, Message: "the function does not accept event ORDERS/7"}
	pod.says(stream.Status{Problems: []stream.Problem{blocked}})
	pod.running(t, trigger, false)
	if message := await(t, trigger, v1alpha1.ConditionDelivered, v1alpha1.ReasonBlocked); message != blocked.Message {
		t.Errorf("the message is %q", message)
	}
	if !meta.IsStatusConditionTrue(trigger.Status.Conditions, v1alpha1.ConditionReady) {
		t.Error("the trigger is not ready because an event is held up")
	}

	// A stopped Function is reported, and its events wait until KEDA or a user starts it.
	change(t, fn, func(fn *v1beta1.Function) { fn.Spec.Replicas = new(int32(0)) })
	await(t, trigger, v1alpha1.ConditionReady, v1alpha1.ReasonFunctionStopped)
	if read(t, deployment); *deployment.Spec.Replicas != 1 {
		t.Error("nothing takes events, so KEDA does not see them")
	}
}

// The status contains the outcome of the last delivery, even if the trigger is ready and no event
// is blocked.
func TestLastDelivery(t *testing.T) {
	t.Parallel()
	pod, trigger := newConsumingPod(t), kafkaTrigger(newNamespace(t))
	newFunction(t, trigger.Namespace)
	create(t, trigger)
	await(t, trigger, v1alpha1.ConditionDelivered, v1alpha1.ReasonNoEvents)
	deployment := deploymentOf(trigger)
	eventually(t, "it has one replica", func() bool { read(t, deployment); return *deployment.Spec.Replicas == 1 })
	for _, test := range []struct {
		outcome stream.Outcome
		reason  string
		status  metav1.ConditionStatus
	}{
		{stream.DeadLettered, v1alpha1.ReasonDeadLettered, metav1.ConditionFalse},
		{stream.Delivered, v1alpha1.ReasonDelivered, metav1.ConditionTrue},
		{stream.Dropped, v1alpha1.ReasonDropped, metav1.ConditionFalse},
	} {
		at := metav1.Now().Rfc3339Copy()
		pod.says(stream.Status{Last: &stream.Last{Outcome: test.outcome, Time: at.Time}})
		pod.running(t, trigger, true)
		await(t, trigger, v1alpha1.ConditionDelivered, test.reason)
		if c := meta.FindStatusCondition(trigger.Status.Conditions, v1alpha1.ConditionDelivered); c.Status != test.status {
			t.Errorf("after %s Delivered is %s", test.outcome, c.Status)
		}
		if last := trigger.Status.LastDelivery; last == nil || last.Outcome != test.reason || !last.Time.Equal(&at) {
			t.Errorf("the last delivery is %v, want %s at %s", last, test.reason, at)
		}
		await(t, trigger, v1alpha1.ConditionReady, v1alpha1.ReasonReady)
	}
}

// If no pod can be created or scheduled, the status contains the cause.
func TestPodNotCreated(t *testing.T) {
	t.Parallel()
	trigger := natsTrigger(newNamespace(t))
	newFunction(t, trigger.Namespace)
	create(t, trigger)
	await(t, trigger, v1alpha1.ConditionReady, v1alpha1.ReasonConsumerNotReady)
	deployment := deploymentOf(trigger)
	eventually(t, "it has one replica", func() bool { read(t, deployment); return *deployment.Spec.Replicas == 1 })
	report(t, deployment, func(d *appsv1.Deployment) {
		d.Status.ObservedGeneration = d.Generation
		d.Status.Conditions = []appsv1.DeploymentCondition{{
			Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue, Reason: "FailedCreate",
			Message: `pods "orders-trigger-7d4b-x2zs" is forbidden: exceeded quota: pods, requested: pods=1, used: pods=5, limited: pods=5`,
		}}
	})
	says := func(want string) {
		t.Helper()
		eventually(t, "Ready says: "+want, func() bool {
			read(t, trigger)
			c := meta.FindStatusCondition(trigger.Status.Conditions, v1alpha1.ConditionReady)
			return c.Reason == v1alpha1.ReasonConsumerNotReady && c.Message == want
		})
	}
	says("the consumer pod cannot be created: exceeded quota: pods, requested: pods=1, used: pods=5, limited: pods=5")

	report(t, deployment, func(d *appsv1.Deployment) {
		d.Status.Conditions = []appsv1.DeploymentCondition{{
			Type: appsv1.DeploymentProgressing, Status: corev1.ConditionFalse, Reason: "ReplicaSetCreateError", Message: "exceeded quota: sets",
		}}
	})
	says("the ReplicaSet cannot be created: exceeded quota: sets")

	report(t, deployment, func(d *appsv1.Deployment) { d.Status.Conditions = nil })
	newConsumingPod(t).running(t, trigger, false)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: trigger.Namespace, Name: deployment.Name + "-1"}}
	report(t, pod, func(pod *corev1.Pod) {
		pod.Status.ContainerStatuses = nil
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/3 nodes are available"}}
	})
	says("the consumer pod cannot be scheduled: 0/3 nodes are available")

	// A container that a policy of the cluster has injected is ignored.
	report(t, pod, func(pod *corev1.Pod) {
		pod.Status.Conditions = nil
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{
			{Name: "agent", Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}},
			{Name: "consume", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "not found"}}},
		}
	})
	says("pod " + pod.Name + " waits: ImagePullBackOff: not found")
}

// The dead-letter subject must not match the subject of the trigger.
func TestDeadLetterLoop(t *testing.T) {
	t.Parallel()
	trigger := natsTrigger(newNamespace(t))
	trigger.Spec.DeadLetter = "orders.dead"
	create(t, trigger)
	if message := await(t, trigger, v1alpha1.ConditionStalled, v1alpha1.ReasonInvalidSpec); !strings.Contains(message, "spec.deadLetter") {
		t.Error(message)
	}
}

// What a stolen token cannot do with the Deployment of a trigger.
func TestAccessPolicyOfDeployments(t *testing.T) {
	t.Parallel()
	t.Run("Kafka", func(t *testing.T) {
		t.Parallel()
		testDeploymentPolicy(t, kafkaTrigger(newNamespace(t)), "NATSTrigger")
	})
	t.Run("NATS", func(t *testing.T) {
		t.Parallel()
		testDeploymentPolicy(t, natsTrigger(newNamespace(t)), "KafkaTrigger")
	})
}

func testDeploymentPolicy(t *testing.T, trigger v1alpha1.Trigger, otherKind string) {
	t.Helper()
	newFunction(t, trigger.GetNamespace())
	create(t, trigger)
	await(t, trigger, v1alpha1.ConditionReady, v1alpha1.ReasonConsumerNotReady)
	live := deploymentOf(trigger)
	eventually(t, "it has one replica", func() bool { read(t, live); return *live.Spec.Replicas == 1 })
	eventually(t, "the access policy admits the objects of triggers", func() bool {
		same := live.DeepCopy()
		same.Spec.RevisionHistoryLimit = new(int32(2))
		same.Spec.Template.Spec.DNSConfig = &corev1.PodDNSConfig{Options: []corev1.PodDNSConfigOption{{Name: "ndots", Value: new("2")}}} // as policies of clusters add it
		err := account.Patch(t.Context(), same, client.MergeFrom(live), client.DryRunAll)
		if err != nil {
			t.Log(err)
		}
		return err == nil
	})
	for name, edit := range forgeries(otherKind) {
		t.Run(name, func(t *testing.T) {
			changed := live.DeepCopy()
			edit(changed, &changed.Spec.Template.Spec, &changed.Spec.Template.Spec.Containers[0])
			if err := account.Patch(t.Context(), changed, client.MergeFrom(live), client.DryRunAll); !denied(err) {
				t.Errorf("it may be changed: %v", err)
			}
		})
	}
	if err := account.Delete(t.Context(), live, client.DryRunAll); err == nil {
		t.Error("it may be deleted")
	}
}

// forgeries are what a Deployment of a trigger cannot become.
func forgeries(otherKind string) map[string]func(*appsv1.Deployment, *corev1.PodSpec, *corev1.Container) {
	return map[string]func(*appsv1.Deployment, *corev1.PodSpec, *corev1.Container){
		"Owner": func(d *appsv1.Deployment, _ *corev1.PodSpec, _ *corev1.Container) { d.OwnerReferences = nil },
		"AnotherKind": func(d *appsv1.Deployment, _ *corev1.PodSpec, _ *corev1.Container) {
			d.OwnerReferences[0].Kind = "CronTrigger"
		},
		"AnotherBroker": func(d *appsv1.Deployment, _ *corev1.PodSpec, _ *corev1.Container) {
			d.OwnerReferences[0].Kind = otherKind
		},
		"Label": func(d *appsv1.Deployment, _ *corev1.PodSpec, _ *corev1.Container) {
			d.Spec.Template.Labels["goless.io/function"] = "report"
		},
		"Token": func(_ *appsv1.Deployment, p *corev1.PodSpec, _ *corev1.Container) {
			p.AutomountServiceAccountToken = nil
		},
		"HostNetwork": func(_ *appsv1.Deployment, p *corev1.PodSpec, _ *corev1.Container) { p.HostNetwork = true },
		"HostAliases": func(_ *appsv1.Deployment, p *corev1.PodSpec, _ *corev1.Container) {
			p.HostAliases = []corev1.HostAlias{{IP: "192.0.2.7", Hostnames: []string{"report.shop.svc"}}}
		},
		"DNSPolicy": func(_ *appsv1.Deployment, p *corev1.PodSpec, _ *corev1.Container) {
			p.DNSPolicy, p.DNSConfig = corev1.DNSNone, &corev1.PodDNSConfig{Nameservers: []string{"192.0.2.7"}}
		},
		"NodeDNS": func(_ *appsv1.Deployment, p *corev1.PodSpec, _ *corev1.Container) { p.DNSPolicy = corev1.DNSDefault },
		"Nameservers": func(_ *appsv1.Deployment, p *corev1.PodSpec, _ *corev1.Container) {
			p.DNSConfig = &corev1.PodDNSConfig{Nameservers: []string{"192.0.2.7"}}
		},
		"Searches": func(_ *appsv1.Deployment, p *corev1.PodSpec, _ *corev1.Container) {
			p.DNSConfig = &corev1.PodDNSConfig{Searches: []string{"evil.example"}}
		},
		"FQDN":             func(_ *appsv1.Deployment, p *corev1.PodSpec, _ *corev1.Container) { p.SetHostnameAsFQDN = new(true) },
		"HostnameOverride": func(_ *appsv1.Deployment, p *corev1.PodSpec, _ *corev1.Container) { p.HostnameOverride = new("bank") },
		"Hostname":         func(_ *appsv1.Deployment, p *corev1.PodSpec, _ *corev1.Container) { p.Hostname = "bank" },
		"Subdomain":        func(_ *appsv1.Deployment, p *corev1.PodSpec, _ *corev1.Container) { p.Subdomain = "bank" },
		"HostPath": func(_ *appsv1.Deployment, p *corev1.PodSpec, _ *corev1.Container) {
			p.Volumes = append(p.Volumes, corev1.Volume{Name: "host", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}})
		},
		"TokenVolume": func(_ *appsv1.Deployment, p *corev1.PodSpec, _ *corev1.Container) {
			p.Volumes[0].Projected.Sources = append(p.Volumes[0].Projected.Sources, corev1.VolumeProjection{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}})
		},
		"Image":   func(_ *appsv1.Deployment, _ *corev1.PodSpec, c *corev1.Container) { c.Image = "evil.example/consume:1" },
		"Command": func(_ *appsv1.Deployment, _ *corev1.PodSpec, c *corev1.Container) { c.Command = []string{"sh"} },
		"Env": func(_ *appsv1.Deployment, _ *corev1.PodSpec, c *corev1.Container) {
			c.Env = []corev1.EnvVar{{Name: "HTTP_PROXY", Value: "http://evil.example"}}
		},
		"HostPort": func(_ *appsv1.Deployment, _ *corev1.PodSpec, c *corev1.Container) { c.Ports[0].HostPort = 9090 },
		"Exec": func(_ *appsv1.Deployment, _ *corev1.PodSpec, c *corev1.Container) {
			c.LivenessProbe.ProbeHandler = corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"sh"}}}
		},
		"ProbeHost": func(_ *appsv1.Deployment, _ *corev1.PodSpec, c *corev1.Container) {
			c.ReadinessProbe.HTTPGet.Host = "evil.example"
		},
		"Elsewhere": func(_ *appsv1.Deployment, _ *corev1.PodSpec, c *corev1.Container) {
			c.Args = append(c.Args, "--url=http://report.bank.svc:8080/")
		},
		"Argument": func(_ *appsv1.Deployment, _ *corev1.PodSpec, c *corev1.Container) {
			c.Args = append(c.Args, "--admin=:80")
		},
		"Program": func(_ *appsv1.Deployment, _ *corev1.PodSpec, c *corev1.Container) { c.Args[0] = "--version" },
		"File": func(_ *appsv1.Deployment, _ *corev1.PodSpec, c *corev1.Container) {
			c.Args = append(c.Args, "--token-file=/var/run/secrets/token")
		},
		"Root": func(_ *appsv1.Deployment, p *corev1.PodSpec, _ *corev1.Container) {
			p.SecurityContext.RunAsNonRoot = nil
		},
		"LargeLimit": func(_ *appsv1.Deployment, _ *corev1.PodSpec, c *corev1.Container) {
			c.Resources.Limits[corev1.ResourceMemory] = resource.MustParse("5Gi")
		},
		"NoLimit": func(_ *appsv1.Deployment, _ *corev1.PodSpec, c *corev1.Container) { c.Resources.Limits = nil },
	}
}

// The API server rejects an invalid NATSTrigger and names the field in the message.
func TestNATSSchema(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	secret := &v1alpha1.SecretKey{Name: "s", Key: "k"}
	for name, test := range map[string]struct {
		edit func(*v1alpha1.NATSTriggerSpec)
		want string // "" if it is accepted
	}{
		"Most":              {func(*v1alpha1.NATSTriggerSpec) {}, ""},
		"Core":              {func(s *v1alpha1.NATSTriggerSpec) { s.Stream, s.Authentication, s.TLS = "", nil, nil }, ""},
		"CleartextPassword": {func(s *v1alpha1.NATSTriggerSpec) { s.TLS = nil }, "sent unencrypted without tls"},
		"CleartextToken": {func(s *v1alpha1.NATSTriggerSpec) {
			s.TLS, s.Authentication = nil, &v1alpha1.NATSAuthentication{Token: secret}
		}, "sent unencrypted without tls"},
		"OneCleartextServer": {func(s *v1alpha1.NATSTriggerSpec) {
			s.TLS, s.Servers = nil, []v1alpha1.NATSServer{"tls://a.example.com:4222", "nats://b.example.com:4222"}
		}, "sent unencrypted without tls"},
		"TLSServers": {func(s *v1alpha1.NATSTriggerSpec) {
			s.TLS, s.Servers = nil, []v1alpha1.NATSServer{"tls://a.example.com:4222"}
		}, ""},
		"Insecure": {func(s *v1alpha1.NATSTriggerSpec) { s.TLS, s.Authentication.Insecure = nil, true }, ""},
		"NKeyWithoutTLS": {func(s *v1alpha1.NATSTriggerSpec) {
			s.TLS, s.Authentication = nil, &v1alpha1.NATSAuthentication{NKey: secret}
		}, ""},
		"NKey":       {func(s *v1alpha1.NATSTriggerSpec) { s.Authentication = &v1alpha1.NATSAuthentication{NKey: secret} }, ""},
		"NoServers":  {func(s *v1alpha1.NATSTriggerSpec) { s.Servers = nil }, "spec.servers"},
		"Password":   {func(s *v1alpha1.NATSTriggerSpec) { s.Servers[0] = "nats://shop:secret@nats.example.com:4222" }, "spec.servers"},
		"Comma":      {func(s *v1alpha1.NATSTriggerSpec) { s.Servers[0] = "nats://a,nats://b" }, "spec.servers"},
		"NoSubject":  {func(s *v1alpha1.NATSTriggerSpec) { s.Subject = "" }, "spec.subject"},
		"Space":      {func(s *v1alpha1.NATSTriggerSpec) { s.Subject = "a b" }, "spec.subject"},
		"StreamName": {func(s *v1alpha1.NATSTriggerSpec) { s.Stream = "A.B" }, "spec.stream"},
		"Wildcard":   {func(s *v1alpha1.NATSTriggerSpec) { s.DeadLetter = "dead.*" }, "without wildcards"},
		"Both":       {func(s *v1alpha1.NATSTriggerSpec) { s.Authentication.Token = secret }, "exactly one of"},
		"NoUser":     {func(s *v1alpha1.NATSTriggerSpec) { s.Authentication.User = "" }, "must be set together"},
		"Attempts":   {func(s *v1alpha1.NATSTriggerSpec) { s.MaxAttempts = 1001 }, "spec.maxAttempts"},
		"Scale":      {func(s *v1alpha1.NATSTriggerSpec) { s.Scale = &v1alpha1.StreamScale{Min: new(int32(5)), Max: 2} }, "less than min"},
		"Path":       {func(s *v1alpha1.NATSTriggerSpec) { s.Path = "tea" }, "path must begin with '/'"},
	} {
		t.Run(name, func(t *testing.T) {
			trigger := natsTrigger(namespace)
			test.edit(&trigger.Spec)
			err := cluster.Create(t.Context(), trigger, client.DryRunAll)
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}
