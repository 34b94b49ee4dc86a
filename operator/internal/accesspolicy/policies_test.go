package accesspolicy_test

import (
	"encoding/json"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/internal/apiservertest"
)

const digest = "@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// merge returns a mutation that merges a CEL object into the pod template of a Deployment.
func merge(fields string) admissionregistrationv1.Mutation {
	return admissionregistrationv1.Mutation{
		PatchType:          admissionregistrationv1.PatchTypeApplyConfiguration,
		ApplyConfiguration: &admissionregistrationv1.ApplyConfiguration{Expression: "Object{spec: Object.spec{template: Object.spec.template{" + fields + "}}}"},
	}
}

// set returns a mutation that sets a pod field that cannot be merged.
func set(field, value string) admissionregistrationv1.Mutation {
	return admissionregistrationv1.Mutation{
		PatchType: admissionregistrationv1.PatchTypeJSONPatch,
		JSONPatch: &admissionregistrationv1.JSONPatch{Expression: `[JSONPatch{op: "add", path: "/spec/template/spec/` + field + `", value: ` + value + `}]`},
	}
}

// policies contains typical mutating policies of clusters, with the parameter that must list what
// they add, if any.
var policies = map[string]struct {
	mutation   admissionregistrationv1.Mutation
	shows      string // part of the JSON of the template
	refused    string
	parameters map[string]string // with which it is allowed
}{
	"ImagePullSecrets": {shows: `"pull"`, mutation: set("imagePullSecrets", `[{"name": "pull"}]`)},
	"Tolerations":      {shows: `"spot"`, mutation: set("tolerations", `[{"key": "spot", "operator": "Exists"}]`)},
	"NodeSelector":     {shows: `"pool"`, mutation: set("nodeSelector", `{"pool": "functions"}`)},
	"Affinity":         {shows: `"disk"`, mutation: set("affinity", `{"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "disk", "operator": "Exists"}]}]}}}`)},
	"Spread": {shows: `"rack"`, mutation: merge(`spec: Object.spec.template.spec{topologySpreadConstraints: [Object.spec.template.spec.topologySpreadConstraints{
		topologyKey: "rack", maxSkew: 1, whenUnsatisfiable: "ScheduleAnyway"}]}`)},
	"Priority":       {shows: `"batch"`, mutation: merge(`spec: Object.spec.template.spec{priorityClassName: "batch"}`)},
	"Runtime":        {shows: `"gvisor"`, mutation: merge(`spec: Object.spec.template.spec{runtimeClassName: "gvisor"}`)},
	"Scheduler":      {shows: `"volcano"`, mutation: merge(`spec: Object.spec.template.spec{schedulerName: "volcano"}`)},
	"DNS":            {shows: `"ndots"`, mutation: set("dnsConfig", `{"options": [{"name": "ndots", "value": "2"}]}`)},
	"HostAliases":    {shows: `"registry"`, mutation: set("hostAliases", `[{"ip": dyn("10.0.0.1"), "hostnames": dyn(["registry"])}]`)},
	"UserNamespaces": {shows: `"hostUsers":false`, mutation: merge(`spec: Object.spec.template.spec{hostUsers: false}`)},
	"Users":          {shows: `"fsGroup":2000`, mutation: merge(`spec: Object.spec.template.spec{securityContext: Object.spec.template.spec.securityContext{runAsUser: 1000, fsGroup: 2000}}`)},
	"AppArmor": {shows: `"appArmorProfile"`, mutation: merge(`spec: Object.spec.template.spec{securityContext: Object.spec.template.spec.securityContext{
		appArmorProfile: Object.spec.template.spec.securityContext.appArmorProfile{type: "RuntimeDefault"}}}`)},
	"Certificates": {shows: `"/etc/ssl/certs"`, mutation: merge(`spec: Object.spec.template.spec{
		volumes: [Object.spec.template.spec.volumes{name: "company", configMap: Object.spec.template.spec.volumes.configMap{name: "company-ca"}}],
		containers: [Object.spec.template.spec.containers{name: "function", volumeMounts: [
			Object.spec.template.spec.containers.volumeMounts{name: "company", mountPath: "/etc/ssl/certs"}]}]}`)},
	"Variable": {
		shows: `"HTTPS_PROXY"`, mutation: merge(`spec: Object.spec.template.spec{
		containers: [Object.spec.template.spec.containers{name: "function", env: [Object.spec.template.spec.containers.env{name: "HTTPS_PROXY", value: "http://proxy.example"}]}],
		initContainers: [Object.spec.template.spec.initContainers{name: "build", env: [Object.spec.template.spec.initContainers.env{name: "HTTPS_PROXY", value: "http://proxy.example"}]}]}`),
		refused: "fence.goless.io/netrc-env", parameters: map[string]string{"netrc-env": "GOPROXY=https://modules.example HTTPS_PROXY=http://proxy.example"},
	},
	"Limits": {shows: `"cpu":"3"`, mutation: merge(`spec: Object.spec.template.spec{containers: [Object.spec.template.spec.containers{name: "function",
		resources: Object.spec.template.spec.containers.resources{limits: {"cpu": "3"}}}]}`)},
	"Registry": {
		shows: `mirror.example`, mutation: merge(`spec: Object.spec.template.spec{
		containers: [Object.spec.template.spec.containers{name: "function", image: "mirror.example:5000/hub/example/launch:1"}],
		initContainers: [Object.spec.template.spec.initContainers{name: "build", image: "mirror.example:5000/hub/example/builder:1"}]}`),
		refused: "fence.goless.io/images", parameters: map[string]string{"images": "other.example/x mirror.example:5000/hub/"},
	},
	"Label": {
		shows: `example.com/cost`, mutation: merge(`metadata: Object.spec.template.metadata{labels: {"team": "blue", "example.com/cost": "7"}}`),
		refused: "fence.goless.io/labels", parameters: map[string]string{"labels": "team\nexample.com/"},
	},
	"Annotation": {
		shows: `example.com/owner`, mutation: merge(`metadata: Object.spec.template.metadata{annotations: {"example.com/owner": "blue"}}`),
		refused: "fence.goless.io/annotations", parameters: map[string]string{"annotations": "example.com/owner"},
	},
	"Agent": {
		mutation: merge(`spec: Object.spec.template.spec{containers: [Object.spec.template.spec.containers{name: "agent", image: "vendor/agent"}]}`),
		refused:  "container agent: not allowed; Deployments of Functions have",
	},
	"Token": {mutation: merge(`spec: Object.spec.template.spec{automountServiceAccountToken: true}`), refused: "automountServiceAccountToken"},
}

// The access policy allows what other policies add, or the error says in which parameter to list
// it.
func TestAccessPolicyWithClusterPolicies(t *testing.T) {
	operator := operatorClient(t)
	setParameters(t, withNetrc)
	namespaces := map[string]string{}
	for name, test := range policies { // created together, because each needs time to take effect
		namespaces[name] = apiservertest.NewNamespace(t, cluster)
		apiservertest.MutateDeployments(t, cluster, namespaces[name], test.mutation)
	}
	for name, test := range policies {
		t.Run(name, func(t *testing.T) {
			var last error
			create := func() (string, error) {
				d := forged(t, sampleFunction(namespaces[name]), func(*appsv1.Deployment) {})
				last = operator.Create(t.Context(), d, client.DryRunAll)
				text, _ := json.Marshal(d.Spec.Template) // cannot fail
				return string(text), last
			}
			t.Cleanup(func() {
				if t.Failed() {
					t.Logf("last error: %v", last)
				}
			})
			letThrough := func() bool {
				text, err := create()
				return err == nil && strings.Contains(text, test.shows)
			}
			if test.refused == "" {
				eventually(t, "changes of the policy accepted", letThrough)
				return
			}
			eventually(t, "changes of the policy rejected", func() bool {
				_, err := create()
				return rejectedByPolicy(err) && strings.Contains(err.Error(), test.refused) && strings.Contains(err.Error(), "deploy/40-access-policy.yaml")
			})
			if test.parameters != nil {
				setParameters(t, test.parameters)
				eventually(t, "listed changes accepted", letThrough)
			}
		})
	}
}

// An image with a digest may come from any registry. Before an upgrade to another registry, the
// previous operator still leads and uses the old images, which therefore are listed first; the
// upgrade does not change the list.
func TestAccessPolicyForMovedImages(t *testing.T) {
	operator, namespace := operatorClient(t), apiservertest.NewNamespace(t, cluster)
	create := func(registry string) error {
		return operator.Create(t.Context(), forged(t, sampleFunction(namespace), pod(func(p *corev1.PodSpec) {
			p.InitContainers[0].Image, p.Containers[0].Image = registry+"builder"+digest, registry+"launch:1"
		})), client.DryRunAll)
	}
	setParameters(t, withNetrc)
	setParameters(t, map[string]string{"builder-image": "new.example/builder@sha256:" + strings.Repeat("1", 64), "function-image": "old.example/launch"})
	eventually(t, "other images of the old registry rejected", func() bool { return rejectedByPolicy(create("old.example/")) })
	setParameters(t, map[string]string{"builder-image": "new.example/builder" + digest})
	eventually(t, "same image of the old registry accepted", func() bool { return create("old.example/") == nil })
	if err := create("evil.example/"); !rejectedByPolicy(err) {
		t.Errorf("image without a digest in another registry: %v", err)
	}
	kubectl(t, bySed(t, installation), "apply", "-f", "-")
	eventually(t, "images of the old registry rejected with instructions", func() bool {
		err := create("old.example/")
		return rejectedByPolicy(err) && strings.Contains(err.Error(), "fence.goless.io/images")
	})
	setParameters(t, map[string]string{"images": "old.example/"})
	kubectl(t, bySed(t, installation), "apply", "-f", "-")
	eventually(t, "images of the previous operator accepted", func() bool { return create("old.example/") == nil })
	if err := create("evil.example/"); !rejectedByPolicy(err) {
		t.Errorf("image of a third registry: %v", err)
	}
}
