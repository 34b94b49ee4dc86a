package controllers_test

import (
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/trigger/api/v1alpha1"
)

func denied(err error) bool {
	return err != nil && strings.Contains(err.Error(), "deploy/60-triggers.yaml")
}

// theft are changes that a stolen token could try.
var theft = map[string]func(*batchv1.CronJob, *corev1.PodSpec, *corev1.Container){
	"NoOwner": func(j *batchv1.CronJob, _ *corev1.PodSpec, _ *corev1.Container) { j.OwnerReferences = nil },
	"AnotherOwner": func(j *batchv1.CronJob, _ *corev1.PodSpec, _ *corev1.Container) {
		j.OwnerReferences[0].Name = "other"
	},
	"AnotherKind": func(j *batchv1.CronJob, _ *corev1.PodSpec, _ *corev1.Container) {
		j.OwnerReferences[0].Kind = "ConfigMap"
	},
	"TwoOwners": func(j *batchv1.CronJob, _ *corev1.PodSpec, _ *corev1.Container) {
		j.OwnerReferences = append(j.OwnerReferences, metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: "p", UID: "2"})
	},
	"Finalizer": func(j *batchv1.CronJob, _ *corev1.PodSpec, _ *corev1.Container) {
		j.Finalizers = []string{"example.com/stay"}
	},
	"PodFinalizer": func(j *batchv1.CronJob, _ *corev1.PodSpec, _ *corev1.Container) {
		j.Spec.JobTemplate.Spec.Template.Finalizers = []string{"example.com/stay"}
	},
	"Label": func(j *batchv1.CronJob, _ *corev1.PodSpec, _ *corev1.Container) {
		j.Spec.JobTemplate.Spec.Template.Labels["goless.io/function"] = "report"
	},
	"Annotation": func(j *batchv1.CronJob, _ *corev1.PodSpec, _ *corev1.Container) {
		j.Spec.JobTemplate.Spec.Template.Annotations = map[string]string{"example.com/credentials": "yes"}
	},
	"HostNetwork":  func(_ *batchv1.CronJob, p *corev1.PodSpec, _ *corev1.Container) { p.HostNetwork = true },
	"HostPID":      func(_ *batchv1.CronJob, p *corev1.PodSpec, _ *corev1.Container) { p.HostPID = true },
	"HostIPC":      func(_ *batchv1.CronJob, p *corev1.PodSpec, _ *corev1.Container) { p.HostIPC = true },
	"ShareProcess": func(_ *batchv1.CronJob, p *corev1.PodSpec, _ *corev1.Container) { p.ShareProcessNamespace = new(true) },
	"Account":      func(_ *batchv1.CronJob, p *corev1.PodSpec, _ *corev1.Container) { p.ServiceAccountName = "admin" },
	"Token": func(_ *batchv1.CronJob, p *corev1.PodSpec, _ *corev1.Container) {
		p.AutomountServiceAccountToken = new(true)
	},
	"DefaultToken": func(_ *batchv1.CronJob, p *corev1.PodSpec, _ *corev1.Container) { p.AutomountServiceAccountToken = nil },
	"Node":         func(_ *batchv1.CronJob, p *corev1.PodSpec, _ *corev1.Container) { p.NodeName = "node" },
	"Hostname":     func(_ *batchv1.CronJob, p *corev1.PodSpec, _ *corev1.Container) { p.Hostname = "bank" },
	"Subdomain":    func(_ *batchv1.CronJob, p *corev1.PodSpec, _ *corev1.Container) { p.Subdomain = "bank" },
	"HostAliases": func(_ *batchv1.CronJob, p *corev1.PodSpec, _ *corev1.Container) {
		p.HostAliases = []corev1.HostAlias{{IP: "192.0.2.7", Hostnames: []string{"report.shop.svc"}}}
	},
	"DNSPolicy": func(_ *batchv1.CronJob, p *corev1.PodSpec, _ *corev1.Container) {
		p.DNSPolicy, p.DNSConfig = corev1.DNSNone, &corev1.PodDNSConfig{Nameservers: []string{"192.0.2.7"}}
	},
	"NodeDNS": func(_ *batchv1.CronJob, p *corev1.PodSpec, _ *corev1.Container) { p.DNSPolicy = corev1.DNSDefault },
	"Nameservers": func(_ *batchv1.CronJob, p *corev1.PodSpec, _ *corev1.Container) {
		p.DNSConfig = &corev1.PodDNSConfig{Nameservers: []string{"192.0.2.7"}}
	},
	"Searches": func(_ *batchv1.CronJob, p *corev1.PodSpec, _ *corev1.Container) {
		p.DNSConfig = &corev1.PodDNSConfig{Searches: []string{"evil.example"}}
	},
	"FQDN":             func(_ *batchv1.CronJob, p *corev1.PodSpec, _ *corev1.Container) { p.SetHostnameAsFQDN = new(true) },
	"HostnameOverride": func(_ *batchv1.CronJob, p *corev1.PodSpec, _ *corev1.Container) { p.HostnameOverride = new("bank") },
	"Priority": func(_ *batchv1.CronJob, p *corev1.PodSpec, _ *corev1.Container) {
		p.PriorityClassName = "system-node-critical"
	},
	"Volume": func(_ *batchv1.CronJob, p *corev1.PodSpec, _ *corev1.Container) {
		p.Volumes = []corev1.Volume{{Name: "s", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "s"}}}}
	},
	"InitContainer": func(_ *batchv1.CronJob, p *corev1.PodSpec, c *corev1.Container) {
		first := *c
		first.Name = "first"
		p.InitContainers = []corev1.Container{first}
	},
	"TwoContainers": func(_ *batchv1.CronJob, p *corev1.PodSpec, c *corev1.Container) {
		second := *c
		second.Name = "second"
		p.Containers = append(p.Containers, second)
	},
	"Root": func(_ *batchv1.CronJob, p *corev1.PodSpec, _ *corev1.Container) {
		p.SecurityContext.RunAsUser = new(int64(0))
	},
	"MayBeRoot": func(_ *batchv1.CronJob, p *corev1.PodSpec, _ *corev1.Container) { p.SecurityContext.RunAsNonRoot = nil },
	"Seccomp": func(_ *batchv1.CronJob, p *corev1.PodSpec, _ *corev1.Container) {
		p.SecurityContext.SeccompProfile = nil
	},
	"NoSecurity": func(_ *batchv1.CronJob, p *corev1.PodSpec, _ *corev1.Container) { p.SecurityContext = nil },
	"Sysctl": func(_ *batchv1.CronJob, p *corev1.PodSpec, _ *corev1.Container) {
		p.SecurityContext.Sysctls = []corev1.Sysctl{{Name: "net.ipv4.ip_unprivileged_port_start", Value: "0"}}
	},
	"Privileged": func(_ *batchv1.CronJob, _ *corev1.PodSpec, c *corev1.Container) {
		c.SecurityContext.Privileged, c.SecurityContext.AllowPrivilegeEscalation = new(true), nil
	},
	"Capability": func(_ *batchv1.CronJob, _ *corev1.PodSpec, c *corev1.Container) {
		c.SecurityContext.Capabilities.Add = []corev1.Capability{"NET_ADMIN"}
	},
	"Writable": func(_ *batchv1.CronJob, _ *corev1.PodSpec, c *corev1.Container) {
		c.SecurityContext.ReadOnlyRootFilesystem = nil
	},
	"Image": func(_ *batchv1.CronJob, _ *corev1.PodSpec, c *corev1.Container) { c.Image = "evil.example/deliver:1" },
	"Name": func(j *batchv1.CronJob, _ *corev1.PodSpec, c *corev1.Container) {
		j.Spec.JobTemplate.Spec.PodFailurePolicy, c.Name = nil, "other"
	},
	"Command": func(_ *batchv1.CronJob, _ *corev1.PodSpec, c *corev1.Container) { c.Command = []string{"sh"} },
	"Port": func(_ *batchv1.CronJob, _ *corev1.PodSpec, c *corev1.Container) {
		c.Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 80}}
	},
	"Secret": func(_ *batchv1.CronJob, _ *corev1.PodSpec, c *corev1.Container) {
		c.Env[0].ValueFrom = &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "s"}, Key: "k"}}
	},
	"Env": func(_ *batchv1.CronJob, _ *corev1.PodSpec, c *corev1.Container) {
		c.Env = append(c.Env, corev1.EnvVar{Name: "HTTP_PROXY", Value: "http://evil.example"})
	},
	"EnvFrom": func(_ *batchv1.CronJob, _ *corev1.PodSpec, c *corev1.Container) {
		c.EnvFrom = []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "s"}}}}
	},
	"NoLimit": func(_ *batchv1.CronJob, _ *corev1.PodSpec, c *corev1.Container) { c.Resources.Limits = nil },
	"Argument": func(_ *batchv1.CronJob, _ *corev1.PodSpec, c *corev1.Container) {
		c.Args = append(c.Args, "-url", "http://evil.example")
	},
	"NotOnce": func(_ *batchv1.CronJob, _ *corev1.PodSpec, c *corev1.Container) { c.Args = c.Args[1:] },
	"NoArguments": func(_ *batchv1.CronJob, _ *corev1.PodSpec, c *corev1.Container) {
		c.Args = nil
	},
	"Elsewhere": func(_ *batchv1.CronJob, _ *corev1.PodSpec, c *corev1.Container) {
		c.Args = append(c.Args, "--url=http://evil.example/")
	},
	"AnotherNamespace": func(_ *batchv1.CronJob, _ *corev1.PodSpec, c *corev1.Container) {
		c.Args = append(c.Args, "--url=http://report.bank.svc:8080/")
	},
	"User": func(j *batchv1.CronJob, _ *corev1.PodSpec, c *corev1.Container) {
		c.Args = append(c.Args, "--url=http://report."+j.Namespace+".svc:8080@evil.example/")
	},
}

// A stolen token is worth little more than the right to create CronTriggers.
func TestAccessPolicyOfCronJobs(t *testing.T) {
	t.Parallel()
	trigger := cronTrigger(newNamespace(t))
	newFunction(t, trigger.Namespace)
	create(t, trigger)
	await(t, trigger, v1alpha1.ConditionReady, v1alpha1.ReasonReady)
	live := cronJobOf(trigger)
	read(t, live)
	// The owner is checked by its name, so one that is made is as good as one that is changed.
	made := live.DeepCopy()
	made.ObjectMeta = metav1.ObjectMeta{Namespace: live.Namespace, Name: "made", Labels: live.Labels, OwnerReferences: live.DeepCopy().OwnerReferences}
	made.OwnerReferences[0].Name = "made"
	eventually(t, "the access policy is in force and admits the objects of triggers", func() bool {
		bad := made.DeepCopy()
		bad.OwnerReferences = nil
		err := account.Create(t.Context(), made.DeepCopy(), client.DryRunAll)
		if err != nil {
			t.Log(err)
		}
		return denied(account.Create(t.Context(), bad, client.DryRunAll)) && err == nil
	})
	for name, edit := range theft {
		t.Run(name, func(t *testing.T) {
			created, updated := made.DeepCopy(), live.DeepCopy()
			for _, job := range []*batchv1.CronJob{created, updated} {
				pod := &job.Spec.JobTemplate.Spec.Template.Spec
				edit(job, pod, &pod.Containers[0])
			}
			if err := account.Create(t.Context(), created, client.DryRunAll); !denied(err) {
				t.Errorf("it may be created: %v", err)
			}
			patch := client.MergeFrom(live)
			if err := account.Patch(t.Context(), updated, patch, client.DryRunAll); !denied(err) {
				t.Errorf("it may be changed: %v", err)
			}
		})
	}
	if err := account.Delete(t.Context(), live, client.DryRunAll); err == nil {
		t.Error("it may be deleted")
	}
}

// Of Jobs, only those of CronTriggers are deleted.
func TestAccessPolicyOfJobs(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	owner := func(kind, name string) []metav1.OwnerReference {
		return []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: kind, Name: name, UID: "1", Controller: new(true)}}
	}
	labels := map[string]string{v1alpha1.TriggerLabel: "nightly", v1alpha1.KindLabel: "CronTrigger"}
	for name, test := range map[string]struct {
		labels map[string]string
		owners []metav1.OwnerReference
		may    bool
	}{
		"own":           {labels, owner("CronJob", "nightly"), true},
		"no-owner":      {labels, nil, false},
		"another-owner": {labels, owner("CronJob", "backup"), false},
		"another-kind":  {labels, owner("ReplicaSet", "nightly"), false},
		"no-labels":     {nil, owner("CronJob", "nightly"), false},
	} {
		t.Run(name, func(t *testing.T) {
			job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: test.labels, OwnerReferences: test.owners}}
			job.Spec.Template.Spec = corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "own", Image: "own"}}}
			create(t, job)
			eventually(t, "the access policy is in force", func() bool {
				err := account.Delete(t.Context(), job, client.DryRunAll)
				return test.may && err == nil || !test.may && denied(err)
			})
		})
	}
}

func TestAccessPolicyOfOwn(t *testing.T) {
	t.Parallel()
	lease := func(namespace, name string) *coordinationv1.Lease {
		return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	}
	event := func(regarding corev1.ObjectReference) *eventsv1.Event {
		regarding.Namespace = "default"
		return &eventsv1.Event{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "e"}, EventTime: metav1.NowMicro(), Regarding: regarding,
			Type: "Normal", Reason: "R", Action: "A", ReportingController: "c", ReportingInstance: "i",
		}
	}
	eventually(t, "the access policy is in force", func() bool {
		return denied(account.Create(t.Context(), lease("goless-system", "other"), client.DryRunAll))
	})
	if err := account.Create(t.Context(), event(corev1.ObjectReference{APIVersion: "goless.io/v1alpha1", Kind: "CronTrigger", Name: "n"}), client.DryRunAll); err != nil {
		t.Errorf("it may not tell of a trigger: %v", err)
	}
	if err := account.Create(t.Context(), event(corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Name: "n"}), client.DryRunAll); !denied(err) {
		t.Errorf("it may tell of a pod: %v", err)
	}
}
