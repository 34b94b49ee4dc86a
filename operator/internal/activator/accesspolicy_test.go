package activator_test

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/activator/backend"
	"goless.io/operator/internal/activator/routing"
	"goless.io/operator/internal/apiservertest"
)

func rejectedByPolicy(err error) bool {
	return err != nil && strings.Contains(err.Error(), "deploy/55-activator.yaml")
}

// slice returns an EndpointSlice that the activator is allowed to create.
func slice(namespace string) *discoveryv1.EndpointSlice {
	t := backend.Backend{Service: types.NamespacedName{Namespace: namespace, Name: "greeting"}, UID: "1", Function: types.NamespacedName{Namespace: namespace, Name: "hello"}}
	return routing.Slice(t, corev1.IPv4Protocol, 12345, []routing.Endpoint{{
		Address: netip.MustParseAddr("192.0.2.1"), Node: "node", Pod: types.NamespacedName{Namespace: system, Name: "goless-activator-1"}, UID: "2",
	}})
}

func TestAccessPolicyForSlices(t *testing.T) {
	t.Parallel()
	namespace := apiservertest.NewNamespace(t, cluster)
	eventually(t, "access policy in force", func() bool {
		s := slice(namespace)
		s.Labels = nil
		return rejectedByPolicy(account.Create(t.Context(), s, client.DryRunAll))
	})
	for name, change := range map[string]func(*discoveryv1.EndpointSlice){
		"OtherName":          func(s *discoveryv1.EndpointSlice) { s.Name = "greeting-abcde" },
		"NameOfOtherService": func(s *discoveryv1.EndpointSlice) { s.Name = "bank-activator" },
		"AnotherService":     func(s *discoveryv1.EndpointSlice) { s.Labels[discoveryv1.LabelServiceName] = "bank" },
		"NoService":          func(s *discoveryv1.EndpointSlice) { delete(s.Labels, discoveryv1.LabelServiceName) },
		"AnotherManager": func(s *discoveryv1.EndpointSlice) {
			s.Labels[discoveryv1.LabelManagedBy] = "endpointslice-controller.k8s.io"
		},
		"NoFunction":   func(s *discoveryv1.EndpointSlice) { delete(s.Labels, v1beta1.FunctionLabel) },
		"NoOwner":      func(s *discoveryv1.EndpointSlice) { s.OwnerReferences = nil },
		"AnotherOwner": func(s *discoveryv1.EndpointSlice) { s.OwnerReferences[0].Name = "bank" },
		"AnotherKind":  func(s *discoveryv1.EndpointSlice) { s.OwnerReferences[0].Kind = "Pod" },
		"TwoOwners": func(s *discoveryv1.EndpointSlice) {
			s.OwnerReferences = append(s.OwnerReferences, metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: "p", UID: "2"})
		},
		"Finalizer":       func(s *discoveryv1.EndpointSlice) { s.Finalizers = []string{"example.com/stay"} },
		"LowPort":         func(s *discoveryv1.EndpointSlice) { s.Ports[0].Port = new(int32(443)) },
		"HighPort":        func(s *discoveryv1.EndpointSlice) { s.Ports[0].Port = new(int32(30000)) },
		"AllPorts":        func(s *discoveryv1.EndpointSlice) { s.Ports[0].Port = nil },
		"NoPorts":         func(s *discoveryv1.EndpointSlice) { s.Ports = nil },
		"AnotherPort":     func(s *discoveryv1.EndpointSlice) { s.Ports[0].Name = new("metrics") },
		"AnotherProtocol": func(s *discoveryv1.EndpointSlice) { s.Ports[0].Protocol = new(corev1.ProtocolUDP) },
		"TwoPorts": func(s *discoveryv1.EndpointSlice) {
			s.Ports = append(s.Ports, discoveryv1.EndpointPort{Name: new("https"), Port: new(int32(12346))})
		},
		"PodOfOtherNamespace": func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].TargetRef.Namespace = namespace },
		"PodWithoutNamespace": func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].TargetRef.Namespace = "" },
		"AnotherTarget":       func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].TargetRef.Kind = "Node" },
		"Hostname":            func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].Hostname = new("bank") },
		"TooMany": func(s *discoveryv1.EndpointSlice) {
			for range 100 {
				s.Endpoints = append(s.Endpoints, s.Endpoints[0])
			}
		},
		"Hosts": func(s *discoveryv1.EndpointSlice) {
			s.AddressType, s.Endpoints[0].Addresses = discoveryv1.AddressTypeFQDN, []string{"bank.example"}
		},
	} {
		s := slice(namespace)
		change(s)
		if err := account.Create(t.Context(), s, client.DryRunAll); !rejectedByPolicy(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// The activator under test may already have deleted the slice, which has no function.
	eventually(t, "own slice created, changed and deleted", func() bool {
		good := slice(namespace)
		if err := account.Create(t.Context(), good); err != nil {
			t.Fatal(err)
		}
		good.Endpoints = nil
		err := account.Update(t.Context(), good)
		if err == nil {
			err = account.Delete(t.Context(), good)
		}
		if client.IgnoreNotFound(err) != nil {
			t.Fatal(err)
		}
		return err == nil
	})

	theirs := slice(namespace)
	theirs.Name, theirs.Labels = "bank-abcde", map[string]string{discoveryv1.LabelServiceName: "bank", discoveryv1.LabelManagedBy: "endpointslice-controller.k8s.io"}
	create(t, theirs)
	if err := account.Delete(t.Context(), theirs, client.DryRunAll); !rejectedByPolicy(err) {
		t.Errorf("deleting a foreign slice: %v", err)
	}
	adopted := slice(namespace)
	adopted.Name, adopted.ResourceVersion = theirs.Name, theirs.ResourceVersion
	if err := account.Update(t.Context(), adopted, client.DryRunAll); !rejectedByPolicy(err) {
		t.Errorf("adopting a foreign slice: %v", err)
	}
}

func TestAccessPolicyForScale(t *testing.T) {
	t.Parallel()
	namespace := apiservertest.NewNamespace(t, cluster)
	for _, name := range []string{"hello", "bank"} {
		labels := map[string]string{v1beta1.FunctionLabel: name}
		if name == "bank" { // not a Function's Deployment, although it has the label
			labels["app"] = "bank"
		}
		create(t, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels}, Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}},
		}})
	}
	scale := func(c client.Client, name, to string, o ...client.SubResourcePatchOption) error {
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		return c.SubResource("scale").Patch(t.Context(), d, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":`+to+`}}`)), o...)
	}
	eventually(t, "access policy in force", func() bool { return rejectedByPolicy(scale(account, "bank", "0", client.DryRunAll)) })
	if err := scale(account, "hello", "7", client.DryRunAll); err != nil {
		t.Errorf("a Function's Deployment: %v", err)
	}
}

// The FlowSchema of the activator matches requests that wake functions, and no other requests.
func TestFlowSchema(t *testing.T) {
	t.Parallel()
	var schema flowcontrolv1.FlowSchema
	if err := cluster.Get(t.Context(), client.ObjectKey{Name: "goless-activator"}, &schema); err != nil {
		t.Fatal(err)
	}
	caller, err := rest.HTTPClientFor(acting)
	if err != nil {
		t.Fatal(err)
	}
	f := newFunction(t, 0, "1h")
	matched := func(method, path, body string) bool {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), method, strings.TrimSuffix(acting.Host, "/")+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Content-Type", string(types.MergePatchType))
		response, err := caller.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close() //nolint:errcheck // only the header is read
		if response.StatusCode != http.StatusOK {
			t.Errorf("%s %s: %s", method, path, response.Status)
		}
		return response.Header.Get("X-Kubernetes-Pf-Flowschema-Uid") == string(schema.UID)
	}
	deployment := "/apis/apps/v1/namespaces/" + f.namespace + "/deployments/hello"
	eventually(t, "FlowSchema matches a wake", func() bool {
		return matched(http.MethodPatch, deployment+"/scale?dryRun=All", `{"spec":{"replicas":1}}`)
	})
	if matched(http.MethodGet, deployment, "") {
		t.Error("the FlowSchema matches other requests")
	}
}

// Leases and Events that RBAC would permit are limited to those of the activator.
func TestAccessPolicyForLeasesAndEvents(t *testing.T) {
	t.Parallel()
	lease := func(namespace, name string) client.Object {
		return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	}
	event := func(about corev1.ObjectReference) client.Object {
		return &eventsv1.Event{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", GenerateName: "e-"}, EventTime: metav1.NowMicro(), Type: "Normal", Reason: "R", Action: "A",
			ReportingController: "c", ReportingInstance: "i", Regarding: about,
		}
	}
	pod := event(corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: "default", Name: "p"})
	eventually(t, "access policy in force", func() bool { return rejectedByPolicy(account.Create(t.Context(), pod, client.DryRunAll)) })
	if err := account.Create(t.Context(), lease(system, "goless-operator"), client.DryRunAll); !rejectedByPolicy(err) {
		t.Errorf("the lease of the operator: %v", err)
	}
	if err := account.Create(t.Context(), event(corev1.ObjectReference{APIVersion: "goless.io/v1beta1", Kind: "Function", Namespace: "default", Name: "f"}), client.DryRunAll); err != nil {
		t.Errorf("an Event about a Function: %v", err)
	}
}

// The service account may scale Deployments and has no other write access to workloads.
func TestRBAC(t *testing.T) {
	t.Parallel()
	may := func(verb, group, resource, subresource string) bool {
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: "default", Verb: verb, Group: group, Resource: resource, Subresource: subresource},
		}}
		if err := account.Create(t.Context(), review); err != nil {
			t.Fatal(err)
		}
		return review.Status.Allowed
	}
	if !may("patch", "apps", "deployments", "scale") {
		t.Error("the account cannot scale Deployments")
	}
	for resource, group := range map[string]string{
		"deployments": "apps", "statefulsets": "apps", "replicasets": "apps", "daemonsets": "apps", "replicationcontrollers": "", "pods": "",
		"services": "", "functions": "goless.io", "horizontalpodautoscalers": "autoscaling", "jobs": "batch",
	} {
		for _, what := range []string{"create", "update", "patch", "delete", "deletecollection", "update/scale", "patch/scale", "update/status", "patch/status"} {
			verb, subresource, _ := strings.Cut(what, "/")
			if resource+" "+what != "deployments patch/scale" && may(verb, group, resource, subresource) {
				t.Errorf("the account can %s %s %s", verb, resource, subresource)
			}
		}
	}
	if !may("create", "discovery.k8s.io", "endpointslices", "restricted") {
		t.Error("the account cannot create EndpointSlices with restricted addresses")
	}
	if may("create", "", "pods", "eviction") || may("create", "", "pods", "exec") || may("get", "", "secrets", "") {
		t.Error("the account can evict pods, execute commands in them, or read Secrets")
	}
}
