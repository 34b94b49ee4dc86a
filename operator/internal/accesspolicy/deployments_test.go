package accesspolicy_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/apiservertest"
	"goless.io/operator/internal/desired"
)

// forged returns the Deployment of a Function as an attacker with the operator's account may change
// it.
func forged(t *testing.T, fn *v1beta1.Function, forge func(*appsv1.Deployment)) *appsv1.Deployment {
	t.Helper()
	s := installed
	s.Build.Modules.Netrc = v1beta1.KeyOf{Name: "modules", Key: "netrc"}
	s.Build.Modules.CABundle = v1beta1.KeyOf{Name: "company-ca", Key: "ca"}
	s.Build.Modules.GoProxy = "https://modules.example"
	d := convert(t, desired.Deployment(fn, s, "", nil), &appsv1.Deployment{})
	forge(d)
	return d
}

// convert converts an apply configuration to an object.
func convert[T client.Object](t *testing.T, from any, into T) T {
	t.Helper()
	text, err := json.Marshal(from)
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		t.Fatal(err)
	}
	return into
}

// setParameters sets parameters of the access policy until the end of the test.
func setParameters(t *testing.T, parameters map[string]string) {
	t.Helper()
	binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{}
	if err := cluster.Get(t.Context(), client.ObjectKey{Name: "goless-operator-deployments"}, binding); err != nil {
		t.Fatal(err)
	}
	set := func(ctx context.Context, values map[string]*string) {
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": values}})
		if err == nil {
			err = cluster.Patch(ctx, binding, client.RawPatch(types.MergePatchType, patch))
		}
		if err != nil {
			t.Error(err)
		}
	}
	before, values := map[string]*string{}, map[string]*string{}
	for name, value := range parameters {
		name = "fence.goless.io/" + name
		before[name], values[name] = nil, &value
		if value, ok := binding.Annotations[name]; ok {
			before[name] = &value
		}
	}
	set(t.Context(), values)
	t.Cleanup(func() { set(context.Background(), before) })
}

// sampleFunction returns a Function with every optional field, whose Deployment does not exist.
func sampleFunction(namespace string) *v1beta1.Function {
	fn := &v1beta1.Function{}
	apiservertest.EveryField(fn)
	fn.Namespace, fn.Name, fn.UID, fn.Spec.Function = namespace, "forged", "1", "-- go.mod --\nmodule m\n"
	return fn
}

// withNetrc contains the parameters of the access policy for the modules of forged.
var withNetrc = map[string]string{
	"netrc-secret": "modules", "netrc-configmaps": "company-ca", "netrc-env": "GOPROXY=https://modules.example",
}

func pod(change func(*corev1.PodSpec)) func(*appsv1.Deployment) {
	return func(d *appsv1.Deployment) { change(&d.Spec.Template.Spec) }
}

func serving(change func(*corev1.Container)) func(*appsv1.Deployment) {
	return pod(func(p *corev1.PodSpec) { change(&p.Containers[0]) })
}

func build(change func(*corev1.Container)) func(*appsv1.Deployment) {
	return pod(func(p *corev1.PodSpec) { change(&p.InitContainers[0]) })
}

func security(change func(*corev1.PodSecurityContext)) func(*appsv1.Deployment) {
	return pod(func(p *corev1.PodSpec) { change(p.SecurityContext) })
}

func containerSecurity(change func(*corev1.SecurityContext)) func(*appsv1.Deployment) {
	return serving(func(c *corev1.Container) { change(c.SecurityContext) })
}

// volume changes the source of the program's volume.
func volume(source corev1.VolumeSource) func(*appsv1.Deployment) {
	return pod(func(p *corev1.PodSpec) {
		i := slices.IndexFunc(p.Volumes, func(v corev1.Volume) bool { return v.Name == "program" })
		p.Volumes[i].VolumeSource = source
	})
}

// fileMount changes the mount of the Secret in spec.files.
func fileMount(change func(*corev1.VolumeMount)) func(*appsv1.Deployment) {
	return serving(func(c *corev1.Container) {
		i := slices.IndexFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == "files-tls" })
		change(&c.VolumeMounts[i])
	})
}

// tokenVolume changes the volume of the service account token.
func tokenVolume(change func(*corev1.ProjectedVolumeSource)) func(*appsv1.Deployment) {
	return pod(func(p *corev1.PodSpec) {
		i := slices.IndexFunc(p.Volumes, func(v corev1.Volume) bool { return v.Name == "token" })
		change(p.Volumes[i].Projected)
	})
}

// tokenMount changes the mount of the service account token.
func tokenMount(change func(*corev1.VolumeMount)) func(*appsv1.Deployment) {
	return serving(func(c *corev1.Container) {
		i := slices.IndexFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == "token" })
		change(&c.VolumeMounts[i])
	})
}

// hostile contains Deployments that an attacker with the operator's token may try, and the field in
// the error.
var hostile = map[string]struct {
	forge func(*appsv1.Deployment)
	want  string
}{
	"Nobodys":      {func(d *appsv1.Deployment) { d.OwnerReferences = nil }, "metadata.ownerReferences"},
	"NoController": {func(d *appsv1.Deployment) { d.OwnerReferences[0].Controller = nil }, "metadata.ownerReferences"},
	"OfAJob":       {func(d *appsv1.Deployment) { d.OwnerReferences[0].Kind = "Job" }, "metadata.ownerReferences"},
	"OfAnother":    {func(d *appsv1.Deployment) { d.OwnerReferences[0].Name = "another" }, "metadata.ownerReferences"},
	"OfAnotherGroup": {func(d *appsv1.Deployment) {
		d.OwnerReferences[0].APIVersion = "goless.io.example/v1"
	}, "metadata.ownerReferences"},
	"SecondOwner": {func(d *appsv1.Deployment) {
		d.OwnerReferences = append(d.OwnerReferences, metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "kube-root-ca.crt", UID: "2"})
	}, "metadata.ownerReferences"},
	"Finalizer":    {func(d *appsv1.Deployment) { d.Finalizers = []string{"example.com/x"} }, "metadata.finalizers"},
	"PodFinalizer": {func(d *appsv1.Deployment) { d.Spec.Template.Finalizers = []string{"example.com/x"} }, "spec.template.metadata.finalizers"},
	"Selector": {func(d *appsv1.Deployment) {
		d.Spec.Selector.MatchLabels = map[string]string{"app": "bank"}
		d.Spec.Template.Labels = map[string]string{"app": "bank"}
	}, "spec.selector"},
	"SelectorExpression": {func(d *appsv1.Deployment) {
		d.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "goless.io/function", Operator: metav1.LabelSelectorOpExists}}
	}, "spec.selector"},
	"Replicas":      {func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(2147483647)) }, "fence.goless.io/max-replicas"},
	"ForeignLabel":  {func(d *appsv1.Deployment) { d.Spec.Template.Labels["app"] = "victim" }, "spec.template.metadata.labels: app: cannot be added"},
	"KubeDNS":       {func(d *appsv1.Deployment) { d.Spec.Template.Labels["k8s-app"] = "kube-dns" }, "fence.goless.io/labels"},
	"CommonLabel":   {func(d *appsv1.Deployment) { d.Spec.Template.Labels["app.kubernetes.io/name"] = "bank" }, "fence.goless.io/labels"},
	"SimilarDomain": {func(d *appsv1.Deployment) { d.Spec.Template.Labels["pod.goless.io.example.com/a"] = "b" }, "fence.goless.io/labels"},
	"AppArmor": {func(d *appsv1.Deployment) {
		d.Spec.Template.Annotations["container.apparmor.security.beta.kubernetes.io/function"] = "unconfined"
	}, "fence.goless.io/annotations"},
	"RoleOfCloud":      {func(d *appsv1.Deployment) { d.Spec.Template.Annotations["iam.amazonaws.com/role"] = "admin" }, "spec.template.metadata.annotations: iam.amazonaws.com/role"},
	"HostNetwork":      {pod(func(p *corev1.PodSpec) { p.HostNetwork = true }), "hostNetwork"},
	"HostPID":          {pod(func(p *corev1.PodSpec) { p.HostPID = true }), "hostPID"},
	"HostIPC":          {pod(func(p *corev1.PodSpec) { p.HostIPC = true }), "hostIPC"},
	"Account":          {pod(func(p *corev1.PodSpec) { p.ServiceAccountName = "admin" }), "serviceAccountName"},
	"AccountByOldName": {pod(func(p *corev1.PodSpec) { p.ServiceAccountName, p.DeprecatedServiceAccount = "", "admin" }), "may not use ServiceAccount admin"},
	"TokenOfDefault":   {pod(func(p *corev1.PodSpec) { p.ServiceAccountName, p.DeprecatedServiceAccount = "", "" }), "may not use ServiceAccount default"},
	"TokenForAnybody":  {tokenVolume(func(p *corev1.ProjectedVolumeSource) { p.Sources[0].ServiceAccountToken.Audience = "" }), "spec.template.spec.volumes"},
	"TokenForYears": {tokenVolume(func(p *corev1.ProjectedVolumeSource) {
		p.Sources[0].ServiceAccountToken.ExpirationSeconds = new(int64(1 << 31))
	}), "spec.template.spec.volumes"},
	"TokenAndSecret": {tokenVolume(func(p *corev1.ProjectedVolumeSource) {
		p.Sources = append(p.Sources, corev1.VolumeProjection{Secret: &corev1.SecretProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "s"}}})
	}), "spec.template.spec.volumes"},
	"TokenTwice": {tokenVolume(func(p *corev1.ProjectedVolumeSource) {
		p.Sources = append(p.Sources, corev1.VolumeProjection{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "api"}})
	}), "spec.template.spec.volumes"},
	"TokenOfCertificates": {tokenVolume(func(p *corev1.ProjectedVolumeSource) {
		p.Sources[0] = corev1.VolumeProjection{ClusterTrustBundle: &corev1.ClusterTrustBundleProjection{Name: new("company"), Path: "ca.pem"}}
	}), "spec.template.spec.volumes"},
	"TokenForBuild": {build(func(c *corev1.Container) {
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "token", MountPath: "/var/run/secrets/kubernetes.io/serviceaccount"})
	}), "spec.template.spec.containers.volumeMounts"},
	"TokenElsewhere": {tokenMount(func(m *corev1.VolumeMount) { m.MountPath = "/etc/ssl/certs" }), "spec.template.spec.containers.volumeMounts"},
	"PartOfToken":    {tokenMount(func(m *corev1.VolumeMount) { m.SubPath = "token" }), "spec.template.spec.containers.volumeMounts"},
	"ExpandedToken":  {tokenMount(func(m *corev1.VolumeMount) { m.SubPathExpr = "$(GREETING)" }), "spec.template.spec.containers.volumeMounts"},
	"Token":          {pod(func(p *corev1.PodSpec) { p.AutomountServiceAccountToken = new(true) }), "automountServiceAccountToken"},
	"NodeName":       {pod(func(p *corev1.PodSpec) { p.NodeName = "control-plane" }), "nodeName control-plane"},
	"Processes":      {pod(func(p *corev1.PodSpec) { p.ShareProcessNamespace = new(true) }), "shareProcessNamespace"},
	"Hostname":       {pod(func(p *corev1.PodSpec) { p.Hostname, p.Subdomain = "db-0", "db" }), "hostname db-0, subdomain db"},
	"Priority":       {pod(func(p *corev1.PodSpec) { p.PriorityClassName = "system-node-critical" }), "priorityClassName system-node-critical"},
	"NoEnd":          {pod(func(p *corev1.PodSpec) { p.TerminationGracePeriodSeconds = new(int64(100000000)) }), "terminationGracePeriodSeconds 100000000"},
	"Root":           {security(func(s *corev1.PodSecurityContext) { s.RunAsNonRoot = nil }), "runAsNonRoot"},
	"RootUser":       {security(func(s *corev1.PodSecurityContext) { s.RunAsUser = new(int64(0)) }), "runAsUser"},
	"RootGroup":      {security(func(s *corev1.PodSecurityContext) { s.SupplementalGroups = []int64{0} }), "supplementalGroups"},
	"NoSecurity":     {pod(func(p *corev1.PodSpec) { p.SecurityContext = nil }), "runAsNonRoot, seccompProfile"},
	"Unconfined":     {security(func(s *corev1.PodSecurityContext) { s.SeccompProfile.Type = corev1.SeccompProfileTypeUnconfined }), "seccompProfile"},
	"AppArmorOff": {security(func(s *corev1.PodSecurityContext) {
		s.AppArmorProfile = &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeUnconfined}
	}), "appArmorProfile"},
	"SELinux": {security(func(s *corev1.PodSecurityContext) { s.SELinuxOptions = &corev1.SELinuxOptions{Type: "spc_t"} }), "seLinuxOptions"},
	"Sysctls": {security(func(s *corev1.PodSecurityContext) {
		s.Sysctls = []corev1.Sysctl{{Name: "kernel.shm_rmid_forced", Value: "1"}}
	}), "sysctls"},
	"Sidecar": {pod(func(p *corev1.PodSpec) {
		p.Containers = append(p.Containers, p.Containers[0])
		p.Containers[1].Name, p.Containers[1].Ports = "more", nil
	}), "container more"},
	"SecondBuild": {pod(func(p *corev1.PodSpec) {
		p.InitContainers = append(p.InitContainers, p.InitContainers[0])
		p.InitContainers[1].Name = "more"
	}), "container more"},
	"ForeignImage": {serving(func(c *corev1.Container) { c.Image = "evil/launch:1" }), "fence.goless.io/images"},
	"SimilarImage": {serving(func(c *corev1.Container) { c.Image = "example/launcher" }), "spec.template.spec.containers.image"},
	"SneakyImage":  {serving(func(c *corev1.Container) { c.Image = "evil.example:5000/example/launch" }), "fence.goless.io/images"},
	"OtherDigest": {build(func(c *corev1.Container) {
		c.Image = "evil.example/builder@sha256:" + strings.Repeat("1", 64)
	}), "fence.goless.io/images"},
	"HostPath": {volume(corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}), "spec.template.spec.volumes"},
	"Secret":   {volume(corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "modules"}}), "spec.template.spec.volumes"},
	"FilesOfHost": {pod(func(p *corev1.PodSpec) {
		p.Volumes[0].VolumeSource = corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}
	}), "spec.template.spec.volumes"},
	"FilesOfToken": {pod(func(p *corev1.PodSpec) {
		p.Volumes[0].VolumeSource = corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}},
		}}}
	}), "spec.template.spec.volumes"},
	"FilesElsewhere": {fileMount(func(m *corev1.VolumeMount) { m.MountPath = "/etc/ssl/certs" }), "spec.template.spec.containers.volumeMounts"},
	"FilesAbove":     {fileMount(func(m *corev1.VolumeMount) { m.MountPath = "/files" }), "spec.template.spec.containers.volumeMounts"},
	"FilesAsProgram": {fileMount(func(m *corev1.VolumeMount) { m.MountPath = "/function/server" }), "spec.template.spec.containers.volumeMounts"},
	"PartOfFiles":    {fileMount(func(m *corev1.VolumeMount) { m.SubPath = "tls.key" }), "spec.template.spec.containers.volumeMounts"},
	"ExpandedFiles":  {fileMount(func(m *corev1.VolumeMount) { m.SubPathExpr = "$(GREETING)" }), "spec.template.spec.containers.volumeMounts"},
	"FilesForBuild": {build(func(c *corev1.Container) {
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "files-tls", MountPath: "/files/tls"})
	}), "spec.template.spec.containers.volumeMounts"},
	"OtherNetrc": {pod(func(p *corev1.PodSpec) {
		p.Volumes[len(p.Volumes)-1].Secret.SecretName = "bank"
	}), "fence.goless.io/netrc-secret"},
	"TokenVolume": {volume(corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
		{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}},
	}}}), "spec.template.spec.volumes"},
	"Driver": {volume(corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: "secrets-store.csi.k8s.io"}}), "spec.template.spec.volumes"},
	"Claim":  {volume(corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}), "spec.template.spec.volumes"},
	"Ephemeral": {volume(corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{"storage": resource.MustParse("1Gi")}},
		},
	}}}), "spec.template.spec.volumes"},
	"Image":        {volume(corev1.VolumeSource{Image: &corev1.ImageVolumeSource{Reference: "evil/files:1"}}), "spec.template.spec.volumes"},
	"NFS":          {volume(corev1.VolumeSource{NFS: &corev1.NFSVolumeSource{Server: "files.example", Path: "/"}}), "spec.template.spec.volumes"},
	"ISCSI":        {volume(corev1.VolumeSource{ISCSI: &corev1.ISCSIVolumeSource{TargetPortal: "10.0.0.1", IQN: "iqn.2001-04.com.example:a"}}), "spec.template.spec.volumes"},
	"FibreChannel": {volume(corev1.VolumeSource{FC: &corev1.FCVolumeSource{TargetWWNs: []string{"50060e801049cfd1"}, Lun: new(int32(0))}}), "spec.template.spec.volumes"},
	"Flex":         {volume(corev1.VolumeSource{FlexVolume: &corev1.FlexVolumeSource{Driver: "example.com/any", SecretRef: &corev1.LocalObjectReference{Name: "s"}}}), "spec.template.spec.volumes"},
	"Git":          {volume(corev1.VolumeSource{GitRepo: &corev1.GitRepoVolumeSource{Repository: "https://evil.example/a.git"}}), "spec.template.spec.volumes"},
	"Ceph":         {volume(corev1.VolumeSource{CephFS: &corev1.CephFSVolumeSource{Monitors: []string{"10.0.0.1"}}}), "spec.template.spec.volumes"},
	"CephBlock":    {volume(corev1.VolumeSource{RBD: &corev1.RBDVolumeSource{CephMonitors: []string{"10.0.0.1"}, RBDImage: "a"}}), "spec.template.spec.volumes"},
	"AWSDisk":      {volume(corev1.VolumeSource{AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: "v"}}), "spec.template.spec.volumes"},
	"GoogleDisk":   {volume(corev1.VolumeSource{GCEPersistentDisk: &corev1.GCEPersistentDiskVolumeSource{PDName: "d"}}), "spec.template.spec.volumes"},
	"AzureShare":   {volume(corev1.VolumeSource{AzureFile: &corev1.AzureFileVolumeSource{SecretName: "s", ShareName: "a"}}), "spec.template.spec.volumes"},
	"AzureDisk":    {volume(corev1.VolumeSource{AzureDisk: &corev1.AzureDiskVolumeSource{DiskName: "d", DataDiskURI: "https://d.example"}}), "spec.template.spec.volumes"},
	"Cinder":       {volume(corev1.VolumeSource{Cinder: &corev1.CinderVolumeSource{VolumeID: "v"}}), "spec.template.spec.volumes"},
	"VSphere":      {volume(corev1.VolumeSource{VsphereVolume: &corev1.VsphereVirtualDiskVolumeSource{VolumePath: "[a] b"}}), "spec.template.spec.volumes"},
	"ResourceClaims": {pod(func(p *corev1.PodSpec) {
		p.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: new("gpu")}}
	}), "resourceClaims gpu"},
	"NetrcForAll": {serving(func(c *corev1.Container) {
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "netrc", MountPath: "/etc/goless/netrc"})
	}), "spec.template.spec.containers.volumeMounts"},
	"NetrcElsewhere": {build(func(c *corev1.Container) {
		c.VolumeMounts[len(c.VolumeMounts)-1].MountPath = "/source/files"
	}), "spec.template.spec.containers.volumeMounts"},
	"NetrcToProxy":   {build(func(c *corev1.Container) { c.Env[0].Value = "http://evil.example" }), "fence.goless.io/netrc-env"},
	"NetrcAndTrust":  {pod(func(p *corev1.PodSpec) { p.Volumes[len(p.Volumes)-2].ConfigMap.Name = "forged-0123456789" }), "fence.goless.io/netrc-configmaps"},
	"NetrcAndSource": {build(func(c *corev1.Container) { c.VolumeMounts[0].MountPath = "/etc/ssl/certs" }), "fence.goless.io/netrc-configmaps"},
	"SecretOfBuild": {build(func(c *corev1.Container) {
		c.EnvFrom = []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "s"}}}}
	}), "spec.template.spec.initContainers.env"},
	"Command":   {serving(func(c *corev1.Container) { c.Command = []string{"sh"} }), "command, args and lifecycle"},
	"Arguments": {serving(func(c *corev1.Container) { c.Args = []string{"-x"} }), "command, args and lifecycle"},
	"Hook": {serving(func(c *corev1.Container) {
		c.Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"sh"}}}}
	}), "command, args and lifecycle"},
	"OtherCommandOfBuild": {build(func(c *corev1.Container) { c.Args = []string{"run", "/source/handler.go"} }), "command, args and lifecycle"},
	"OtherTimeout":        {build(func(c *corev1.Container) { c.Args[6] = "--max-memory=0" }), "command, args and lifecycle"},
	"NoLimits":            {serving(func(c *corev1.Container) { c.Resources.Limits = nil }), "fence.goless.io/max-memory"},
	"AllTheMemory":        {serving(func(c *corev1.Container) { c.Resources.Limits["memory"] = resource.MustParse("1Ti") }), "fence.goless.io/max-memory"},
	"NoEndOfStorage": {serving(func(c *corev1.Container) {
		delete(c.Resources.Limits, "ephemeral-storage")
	}), "fence.goless.io/max-ephemeral-storage"},
	"AllTheStorage": {build(func(c *corev1.Container) {
		c.Resources.Limits["ephemeral-storage"] = resource.MustParse("1Ti")
	}), "fence.goless.io/max-ephemeral-storage"},
	"AllTheProcessors": {serving(func(c *corev1.Container) {
		delete(c.Resources.Limits, "cpu")
		c.Resources.Requests["cpu"] = resource.MustParse("100")
	}), "fence.goless.io/max-cpu"},
	"ResourcesOfThePod": {pod(func(p *corev1.PodSpec) {
		p.Resources = &corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("100")}}
	}), "resources cannot be set for functions"},
	"Devices": {serving(func(c *corev1.Container) {
		c.Resources.Limits["example.com/gpu"], c.Resources.Requests["example.com/gpu"] = resource.MustParse("1"), resource.MustParse("1")
	}), "other resources are not allowed"},
	"HostPort":    {serving(func(c *corev1.Container) { c.Ports[0].HostPort = 80 }), "hostPort"},
	"ProbeOfHost": {serving(func(c *corev1.Container) { c.LivenessProbe.HTTPGet.Host = "169.254.169.254" }), "probes must be"},
	"ProbeByExec": {serving(func(c *corev1.Container) {
		c.LivenessProbe.ProbeHandler = corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"sh"}}}
	}), "probes must be"},
	"StartupByTCP": {serving(func(c *corev1.Container) {
		c.StartupProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Host: "10.0.0.1", Port: intstr.FromInt32(22)}}}
	}), "probes must be"},
	"Privileged": {containerSecurity(func(s *corev1.SecurityContext) { s.Privileged, s.AllowPrivilegeEscalation = new(true), nil }), "spec.template.spec.containers.securityContext"},
	"Capability": {build(func(c *corev1.Container) {
		c.SecurityContext.Capabilities.Add = []corev1.Capability{"SYS_ADMIN"}
	}), "spec.template.spec.containers.securityContext"},
	"Writable":      {containerSecurity(func(s *corev1.SecurityContext) { s.ReadOnlyRootFilesystem = nil }), "spec.template.spec.containers.securityContext"},
	"RootContainer": {containerSecurity(func(s *corev1.SecurityContext) { s.RunAsUser = new(int64(0)) }), "spec.template.spec.containers.securityContext"},
	"MayBeRoot":     {containerSecurity(func(s *corev1.SecurityContext) { s.RunAsNonRoot = new(false) }), "spec.template.spec.containers.securityContext"},
	"ContainerSELinux": {containerSecurity(func(s *corev1.SecurityContext) {
		s.SELinuxOptions = &corev1.SELinuxOptions{Type: "spc_t"}
	}), "spec.template.spec.containers.securityContext"},
	"ProcMount": {pod(func(p *corev1.PodSpec) {
		p.HostUsers, p.Containers[0].SecurityContext.ProcMount = new(false), new(corev1.UnmaskedProcMount)
	}), "spec.template.spec.containers.securityContext"},
}

// The access policy allows the Deployments of Functions, and rejects others even from the
// operator's account.
func TestAccessPolicyForDeployments(t *testing.T) {
	operator, namespace := operatorClient(t), apiservertest.NewNamespace(t, cluster)
	create := func(forge func(*appsv1.Deployment)) error {
		return operator.Create(t.Context(), forged(t, sampleFunction(namespace), forge), client.DryRunAll)
	}
	setParameters(t, withNetrc)
	eventually(t, "Deployment of a Function accepted", func() bool { return create(func(*appsv1.Deployment) {}) == nil })
	for name, test := range hostile {
		t.Run(name, func(t *testing.T) {
			err := create(test.forge)
			if !rejectedByPolicy(err) || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), "deploy/40-access-policy.yaml") {
				t.Errorf("got %v, want an error with %q and the file name", err, test.want)
			}
		})
	}
}

// The fields of a FunctionClass are allowed; labels and annotations must be listed in a parameter.
func TestAccessPolicyForClasses(t *testing.T) {
	operator, namespace := operatorClient(t), apiservertest.NewNamespace(t, cluster)
	setParameters(t, withNetrc)
	setParameters(t, map[string]string{"labels": "team", "annotations": "example.com/owner"})
	s := installed
	s.Class = &v1beta1.FunctionClassSpec{
		ImagePullSecrets: []corev1.LocalObjectReference{{Name: "registry"}}, NodeSelector: map[string]string{"pool": "functions"},
		Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}}, PriorityClassName: "batch", RuntimeClassName: "gvisor",
		PodUser: &v1beta1.PodUser{}, Labels: map[string]string{"team": "blue"}, Annotations: map[string]string{"example.com/owner": "blue"},
	}
	create := func() error {
		d := convert(t, desired.Deployment(sampleFunction(namespace), s, "", nil), &appsv1.Deployment{})
		return operator.Create(t.Context(), d, client.DryRunAll)
	}
	eventually(t, "Deployment with a class accepted", func() bool { return create() == nil })
	s.Class.PriorityClassName = "system-node-critical"
	if err := create(); !rejectedByPolicy(err) {
		t.Errorf("system priority class: %v", err)
	}
}

// A Deployment that must not be created cannot be the result of an update either.
func TestAccessPolicyForChanges(t *testing.T) {
	operator := operatorClient(t)
	fn := sampleFunction(apiservertest.NewNamespace(t, cluster))
	fn.Spec.Function = "package p\n" // without modules, and so without credentials
	d := convert(t, desired.Deployment(fn, installed, "", nil), &appsv1.Deployment{})
	if err := operator.Create(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	for name, test := range hostile {
		if strings.Contains(name, "Netrc") || name == "NetrcForAll" {
			continue // nothing to change
		}
		changed := d.DeepCopy()
		test.forge(changed)
		if err := operator.Patch(t.Context(), changed, client.MergeFrom(d), client.DryRunAll); !rejectedByPolicy(err) && !strings.HasPrefix(name, "Selector") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, forge := range map[string]func(*appsv1.Deployment){
		"another Function of that name": func(d *appsv1.Deployment) { d.OwnerReferences[0].UID = "2" },
		"no owner":                      func(d *appsv1.Deployment) { d.OwnerReferences = nil },
	} {
		changed := d.DeepCopy()
		forge(changed)
		if err := operator.Patch(t.Context(), changed, client.MergeFrom(d), client.DryRunAll); !rejectedByPolicy(err) || !strings.Contains(err.Error(), "metadata.ownerReferences") {
			t.Errorf("%s: %v", name, err)
		}
	}
	parameters := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: "goless-operator-deployments"}}
	if err := operator.Patch(t.Context(), parameters, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":null}}`)), client.DryRunAll); !apierrors.IsForbidden(err) {
		t.Errorf("parameters of the access policy: %v", err)
	}
}

// An update of a volume must not turn it into a Secret, or add certificates besides netrc, if the
// build container already mounts it. Updates that the operator makes are allowed, even with foreign
// mounts.
func TestAccessPolicyForSteps(t *testing.T) {
	operator := operatorClient(t)
	setParameters(t, withNetrc)
	d := forged(t, sampleFunction(apiservertest.NewNamespace(t, cluster)), func(d *appsv1.Deployment) {
		pod := &d.Spec.Template.Spec
		pod.Volumes = append(pod.Volumes, corev1.Volume{Name: "files-later", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
		build := &pod.InitContainers[0]
		build.VolumeMounts = append(build.VolumeMounts, corev1.VolumeMount{Name: "files-later", MountPath: "/etc/ssl/certs"})
		pod.Volumes = append(pod.Volumes, corev1.Volume{Name: "files-conf", VolumeSource: corev1.VolumeSource{ConfigMap: configMap("conf")}})
		function := &pod.Containers[0]
		function.VolumeMounts = append(function.VolumeMounts, corev1.VolumeMount{Name: "files-conf", MountPath: "/vendor"})
	})
	eventually(t, "Deployment accepted", func() bool { return operator.Create(t.Context(), d) == nil })
	for name, test := range map[string]struct {
		volume string
		source corev1.VolumeSource
		want   string // part of the error; empty if allowed
	}{
		"Secret":      {"files-later", corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "bank"}}, "spec.template.spec.containers.volumeMounts"},
		"Trust":       {"ca", corev1.VolumeSource{ConfigMap: configMap("forged")}, "fence.goless.io/netrc-configmaps"},
		"OtherSource": {"source", corev1.VolumeSource{ConfigMap: configMap("forged-0123456789")}, ""},
		"SecretFiles": {"files-conf", corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "conf"}}, ""},
		"OtherFiles":  {"files-tls", corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "renewed"}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			changed := d.DeepCopy()
			volumes := changed.Spec.Template.Spec.Volumes
			volumes[slices.IndexFunc(volumes, func(v corev1.Volume) bool { return v.Name == test.volume })].VolumeSource = test.source
			err := operator.Patch(t.Context(), changed, client.MergeFrom(d), client.DryRunAll)
			if test.want == "" && err != nil || test.want != "" && (!rejectedByPolicy(err) || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

func configMap(name string) *corev1.ConfigMapVolumeSource {
	return &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: name}}
}

// An attacker cannot use what another client has added to a Deployment.
func TestAccessPolicyForAdditions(t *testing.T) {
	operator := operatorClient(t)
	d := forged(t, sampleFunction(apiservertest.NewNamespace(t, cluster)), func(d *appsv1.Deployment) {
		pod := &d.Spec.Template.Spec
		pod.Containers = append(pod.Containers, corev1.Container{Name: "agent", Image: "vendor/agent", Command: []string{"agent"}})
		pod.Volumes = append(pod.Volumes, corev1.Volume{Name: "host", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/var/log"}}})
		pod.Volumes = append(pod.Volumes, corev1.Volume{Name: "agent", VolumeSource: corev1.VolumeSource{ConfigMap: configMap("agent")}})
	})
	if err := cluster.Create(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	for name, forge := range map[string]func(*appsv1.Deployment){
		"its volume": serving(func(c *corev1.Container) {
			c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "host", MountPath: "/host"})
		}),
		"its image": serving(func(c *corev1.Container) { c.Image = "vendor/agent" }),
		"its configuration": pod(func(p *corev1.PodSpec) {
			p.Volumes[len(p.Volumes)-1].ConfigMap = configMap("forged")
		}),
		"itself": func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[1].Command = []string{"sh"} },
	} {
		taken := d.DeepCopy()
		forge(taken)
		if err := operator.Patch(t.Context(), taken, client.MergeFrom(d), client.DryRunAll); !rejectedByPolicy(err) {
			t.Errorf("changing %s of another client: %v", name, err)
		}
	}
}
