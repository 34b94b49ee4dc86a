package controllers_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"goless.io/operator/api/v1beta1"
	"goless.io/trigger/api/v1alpha1"
	"goless.io/trigger/internal/controllers"
)

// hosts sets the allowed hostnames of a namespace.
func hosts(t *testing.T, namespace, patterns string) {
	t.Helper()
	change(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, func(n *corev1.Namespace) {
		metav1.SetMetaDataAnnotation(&n.ObjectMeta, v1alpha1.HostnamesAnnotation, patterns)
	})
}

// httpTrigger returns a trigger with a hostname that its namespace may use.
func httpTrigger(t *testing.T) *v1alpha1.HTTPTrigger {
	t.Helper()
	namespace := newNamespace(t)
	hosts(t, namespace, "*."+namespace+".example")
	newFunction(t, namespace)
	return &v1alpha1.HTTPTrigger{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "public"},
		Spec: v1alpha1.HTTPTriggerSpec{
			FunctionRef: &v1alpha1.FunctionReference{Name: "report"},
			Hostnames:   []v1alpha1.Hostname{v1alpha1.Hostname("www." + namespace + ".example")}, Path: "/reports",
		},
	}
}

func routed(trigger *v1alpha1.HTTPTrigger) *v1alpha1.HTTPTrigger {
	trigger.Spec.ParentRefs = []v1alpha1.ParentReference{{Name: "public", Namespace: "gateways"}}
	return trigger
}

// newGateway returns the Gateway "public" in a namespace.
func newGateway(namespace string) *gatewayv1.Gateway {
	return &gatewayv1.Gateway{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "public"},
		Spec: gatewayv1.GatewaySpec{
			GatewayClassName: "example", Listeners: []gatewayv1.Listener{{Name: "http", Port: 80, Protocol: gatewayv1.HTTPProtocolType}},
		},
	}
}

// accept sets the condition Accepted that the first Gateway of a route reports.
func accept(t *testing.T, route *gatewayv1.HTTPRoute, status metav1.ConditionStatus) {
	t.Helper()
	report(t, route, func(route *gatewayv1.HTTPRoute) {
		route.Status.Parents = []gatewayv1.RouteParentStatus{{
			ParentRef: route.Spec.ParentRefs[0], ControllerName: "example.com/gateway",
			Conditions: []metav1.Condition{{
				Type: string(gatewayv1.RouteConditionAccepted), Status: status, Reason: "Verdict", Message: "so it is",
				ObservedGeneration: route.Generation, LastTransitionTime: metav1.Now(),
			}},
		}}
	})
}

func there(t *testing.T, object client.Object, trigger *v1alpha1.HTTPTrigger) bool {
	t.Helper()
	err := cluster.Get(t.Context(), client.ObjectKeyFromObject(trigger), object)
	if client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	return !apierrors.IsNotFound(err)
}

// settle is how long the previous object is kept at least: 15 seconds, counted from a time in whole
// seconds.
const settle = 14 * time.Second

// Without parentRefs, the trigger has an Ingress. With parentRefs it has an HTTPRoute instead, and
// is ready when its Gateway accepts it.
func TestHTTPTrigger(t *testing.T) {
	t.Parallel()
	trigger := httpTrigger(t)
	host := string(trigger.Spec.Hostnames[0])
	trigger.Spec.TLS = &v1alpha1.IngressTLS{SecretName: "certificate"}
	create(t, trigger)
	await(t, trigger, v1alpha1.ConditionReady, v1alpha1.ReasonReady)
	if want := "https://" + host + "/reports"; trigger.Status.URL != want {
		t.Errorf("the URL is %q, want %q", trigger.Status.URL, want)
	}
	var ingress networkingv1.Ingress
	if !there(t, &ingress, trigger) {
		t.Fatal("there is no Ingress")
	}
	path := ingress.Spec.Rules[0].HTTP.Paths[0]
	got := []string{ingress.Spec.Rules[0].Host, path.Path, path.Backend.Service.Name, ingress.Spec.TLS[0].SecretName, ingress.Spec.TLS[0].Hosts[0]}
	if diff := cmp.Diff([]string{host, "/reports", "report", "certificate", host}, got); diff != "" || path.Backend.Service.Port.Number != 8080 {
		t.Errorf("the Ingress, with port %d (-want +got):\n%s", path.Backend.Service.Port.Number, diff)
	}

	// The Ingress serves unchanged until the Gateway has accepted the route.
	change(t, trigger, func(t *v1alpha1.HTTPTrigger) { t.Spec.TLS = nil; routed(t) })
	await(t, trigger, v1alpha1.ConditionReady, v1alpha1.ReasonNotAccepted)
	route := &gatewayv1.HTTPRoute{}
	if !there(t, route, trigger) {
		t.Fatal("there is no HTTPRoute")
	}
	accept(t, route, metav1.ConditionFalse)
	eventually(t, "the Gateway's verdict is reported", func() bool {
		return strings.Contains(await(t, trigger, v1alpha1.ConditionReady, v1alpha1.ReasonNotAccepted), "so it is; until then the Ingress serves")
	})
	if !there(t, &ingress, trigger) || len(ingress.Spec.TLS) != 1 {
		t.Errorf("without an accepted route the Ingress is gone, or has changed: %v", ingress.Spec)
	}
	began := time.Now()
	accept(t, route, metav1.ConditionTrue)
	// The proxies of the Gateway may not be configured yet, and later those of the Ingress.
	await(t, trigger, v1alpha1.ConditionReady, v1alpha1.ReasonReady)
	if !there(t, &ingress, trigger) && time.Since(began) < settle {
		t.Error("the Ingress was deleted as soon as the Gateway had accepted the route")
	}
	gone(t, &ingress)

	began = time.Now()
	change(t, trigger, func(t *v1alpha1.HTTPTrigger) { t.Spec.ParentRefs = nil })
	await(t, trigger, v1alpha1.ConditionReady, v1alpha1.ReasonReady)
	eventually(t, "there is an Ingress", func() bool { return there(t, &ingress, trigger) })
	if !there(t, route, trigger) && time.Since(began) < settle {
		t.Error("the route was deleted as soon as there was an Ingress")
	}
	gone(t, route)
	if !there(t, &ingress, trigger) {
		t.Error("neither the route nor the Ingress exists")
	}
}

// A Gateway that does not exist, or that was deleted after it had accepted the route, is reported.
func TestGatewayNotFound(t *testing.T) {
	t.Parallel()
	trigger := httpTrigger(t)
	trigger.Spec.ParentRefs = []v1alpha1.ParentReference{{Name: "public"}}
	create(t, trigger)
	notFound := fmt.Sprintf("spec.parentRefs: Gateway %q not found", trigger.Namespace+"/public")
	reports := func(want string) {
		t.Helper()
		eventually(t, "the trigger reports "+want, func() bool {
			return strings.HasPrefix(await(t, trigger, v1alpha1.ConditionReady, v1alpha1.ReasonNotAccepted), want)
		})
	}
	reports(notFound)
	gateway := newGateway(trigger.Namespace)
	create(t, gateway)
	reports("0 of 1 Gateways accepted the route")
	route := &gatewayv1.HTTPRoute{}
	if !there(t, route, trigger) {
		t.Fatal("there is no HTTPRoute")
	}
	accept(t, route, metav1.ConditionTrue)
	await(t, trigger, v1alpha1.ConditionReady, v1alpha1.ReasonReady)
	if err := cluster.Delete(t.Context(), gateway); err != nil {
		t.Fatal(err)
	}
	reports(notFound)
	change(t, trigger, func(t *v1alpha1.HTTPTrigger) {
		t.Spec.ParentRefs = append(t.Spec.ParentRefs, v1alpha1.ParentReference{Namespace: "gateways", Name: "public"})
	})
	reports(notFound + "; create it or correct the reference; 0 of 2 Gateways accepted the route")
}

// Without the permission to list Gateways, goless-triggers starts without knowing them.
func TestGatewaysForbidden(t *testing.T) {
	t.Parallel()
	own := rest.CopyConfig(mgr.GetConfig())
	own.Impersonate.UserName = "system:serviceaccount:" + newNamespace(t) + ":without-permissions"
	stranger, err := client.New(own, client.Options{Scheme: mgr.GetScheme()})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		reader client.Reader
		want   bool
	}{{account, true}, {stranger, false}} {
		if got, err := controllers.MayList(t.Context(), test.reader, controllers.GatewayKind); got != test.want || err != nil {
			t.Errorf("may list Gateways: %t, %v, want %t", got, err, test.want)
		}
	}
}

// If the replacement of an Ingress or HTTPRoute cannot be created, the one that serves is kept,
// unless it serves something that the trigger no longer requests.
func TestMoveFails(t *testing.T) {
	t.Parallel()
	trigger := httpTrigger(t)
	create(t, trigger)
	await(t, trigger, v1alpha1.ConditionReady, v1alpha1.ReasonReady)
	foreign := &gatewayv1.HTTPRoute{ObjectMeta: metav1.ObjectMeta{Namespace: trigger.Namespace, Name: trigger.Name}}
	create(t, foreign)
	change(t, trigger, func(t *v1alpha1.HTTPTrigger) { routed(t) })
	await(t, trigger, v1alpha1.ConditionStalled, v1alpha1.ReasonNotOwned)
	ingress := &networkingv1.Ingress{}
	if !there(t, ingress, trigger) {
		t.Error("the Ingress is gone, and there is no route of the trigger")
	}
	change(t, trigger, func(t *v1alpha1.HTTPTrigger) { t.Spec.Path = "/elsewhere" })
	gone(t, ingress)
}

// A second trigger moves a hostname to a Gateway at another address: both serve until the first is
// deleted.
func TestMoveToAnotherAddress(t *testing.T) {
	t.Parallel()
	trigger := httpTrigger(t)
	create(t, trigger)
	await(t, trigger, v1alpha1.ConditionReady, v1alpha1.ReasonReady)
	second := routed(trigger.DeepCopy())
	second.ObjectMeta = metav1.ObjectMeta{Namespace: trigger.Namespace, Name: "second"}
	create(t, second)
	await(t, second, v1alpha1.ConditionReady, v1alpha1.ReasonNotAccepted)
	if !there(t, &gatewayv1.HTTPRoute{}, second) || !there(t, &networkingv1.Ingress{}, trigger) {
		t.Error("one of them does not serve")
	}
}

// Two Functions share the requests by their weights.
func TestCanary(t *testing.T) {
	t.Parallel()
	trigger := routed(httpTrigger(t))
	next := &v1beta1.Function{ObjectMeta: metav1.ObjectMeta{Namespace: trigger.Namespace, Name: "next"}, Spec: v1beta1.FunctionSpec{Function: "package handlers", ServerPort: 9000}}
	trigger.Spec.FunctionRef, trigger.Spec.Backends = nil, []v1alpha1.Backend{{Function: "report", Weight: new(int32(90))}, {Function: "next", Weight: new(int32(10))}}
	create(t, trigger)
	await(t, trigger, v1alpha1.ConditionReady, v1alpha1.ReasonFunctionNotFound)
	weights := func() map[string]int32 {
		var route gatewayv1.HTTPRoute
		all := map[string]int32{}
		if there(t, &route, trigger) {
			for _, ref := range route.Spec.Rules[0].BackendRefs {
				all[string(ref.Name)] = *ref.Weight
			}
		}
		return all
	}
	if diff := cmp.Diff(map[string]int32{"report": 90}, weights()); diff != "" {
		t.Errorf("the weights while one Function is missing (-want +got):\n%s", diff)
	}
	create(t, next)
	report(t, next, func(fn *v1beta1.Function) {
		fn.Status.URL, fn.Status.Service = "http://next."+fn.Namespace+".svc:9000", "next"
	})
	eventually(t, "both have their share", func() bool { return cmp.Equal(map[string]int32{"report": 90, "next": 10}, weights()) })
	before := writes.in(trigger.Namespace)
	report(t, next, func(fn *v1beta1.Function) {
		fn.Status.Conditions = []metav1.Condition{{Type: "Available", Status: "False", Reason: "R", LastTransitionTime: metav1.Now()}}
	})
	await(t, trigger, v1alpha1.ConditionReady, v1alpha1.ReasonFunctionUnavailable)
	for _, write := range writes.in(trigger.Namespace)[len(before):] {
		if strings.Contains(write, "/httproutes/") {
			t.Errorf("the route was updated again: %s", write)
		}
	}
}

// A trigger has no route if its namespace may not use the hostname, or no longer may, or if an
// older trigger uses it.
func TestHostnames(t *testing.T) {
	t.Parallel()
	trigger := httpTrigger(t)
	create(t, trigger)
	await(t, trigger, v1alpha1.ConditionReady, v1alpha1.ReasonReady)

	second := trigger.DeepCopy()
	second.ObjectMeta = metav1.ObjectMeta{Namespace: trigger.Namespace, Name: "second"}
	create(t, second)
	if message := await(t, second, v1alpha1.ConditionStalled, v1alpha1.ReasonHostnameTaken); !strings.Contains(message, "HTTPTrigger public") {
		t.Error(message)
	}
	if there(t, &networkingv1.Ingress{}, second) {
		t.Error("two triggers have the same hostname and path")
	}
	change(t, second, func(t *v1alpha1.HTTPTrigger) { t.Spec.Path = "/other" })
	await(t, second, v1alpha1.ConditionReady, v1alpha1.ReasonReady)

	// The older trigger takes over a hostname of the younger one, which reports that.
	change(t, trigger, func(t *v1alpha1.HTTPTrigger) { t.Spec.Path = "/other" })
	await(t, second, v1alpha1.ConditionStalled, v1alpha1.ReasonHostnameTaken)

	hosts(t, trigger.Namespace, "other.example")
	if message := await(t, trigger, v1alpha1.ConditionStalled, v1alpha1.ReasonHostnameNotAllowed); !strings.Contains(message, "other.example") {
		t.Error(message)
	}
	eventually(t, "the Ingress is gone", func() bool { return !there(t, &networkingv1.Ingress{}, trigger) })
}

// A namespace that may not use a hostname does not prevent another namespace from using it.
func TestSquatter(t *testing.T) {
	t.Parallel()
	trigger := httpTrigger(t)
	squatter := trigger.DeepCopy()
	squatter.Namespace = newNamespace(t)
	create(t, squatter)
	await(t, squatter, v1alpha1.ConditionStalled, v1alpha1.ReasonHostnameNotAllowed)
	create(t, trigger)
	await(t, trigger, v1alpha1.ConditionReady, v1alpha1.ReasonReady)

	// If both may use it, the older one gets it. Triggers of the same second are ordered by name.
	hosts(t, squatter.Namespace, string(trigger.Spec.Hostnames[0]))
	newFunction(t, squatter.Namespace)
	eventually(t, "one of them has the hostname", func() bool {
		reasons := map[string]*v1alpha1.HTTPTrigger{}
		for _, t2 := range []*v1alpha1.HTTPTrigger{trigger, squatter} {
			read(t, t2)
			reasons[meta.FindStatusCondition(t2.Status.Conditions, v1alpha1.ConditionReady).Reason] = t2
		}
		waits, has := reasons[v1alpha1.ReasonHostnameTaken], reasons[v1alpha1.ReasonReady]
		if waits == nil || has == nil {
			return false
		}
		if message := await(t, waits, v1alpha1.ConditionStalled, v1alpha1.ReasonHostnameTaken); !strings.Contains(message, "by a trigger of another namespace,") {
			t.Fatalf("it tells what another namespace has: %s", message)
		}
		return true
	})
}

// What a stolen token cannot do with routes.
func TestAccessPolicyOfRoutes(t *testing.T) {
	t.Parallel()
	trigger := routed(httpTrigger(t))
	create(t, trigger)
	await(t, trigger, v1alpha1.ConditionReady, v1alpha1.ReasonNotAccepted)
	var made gatewayv1.HTTPRoute
	if !there(t, &made, trigger) {
		t.Fatal("there is no HTTPRoute")
	}
	for name, edit := range map[string]func(*gatewayv1.HTTPRoute){
		"Hostname": func(r *gatewayv1.HTTPRoute) { r.Spec.Hostnames[0] = "bank.example" },
		"Suffix": func(r *gatewayv1.HTTPRoute) {
			r.Spec.Hostnames[0] = gatewayv1.Hostname("evil" + trigger.Namespace + ".example")
		},
		"AllHostnames": func(r *gatewayv1.HTTPRoute) { r.Spec.Hostnames = nil },
		"Owner":        func(r *gatewayv1.HTTPRoute) { r.OwnerReferences = nil },
		"Annotation":   func(r *gatewayv1.HTTPRoute) { r.Annotations = map[string]string{"example.com/snippet": "evil"} },
		"Namespace": func(r *gatewayv1.HTTPRoute) {
			r.Spec.Rules[0].BackendRefs[0].Namespace = new(gatewayv1.Namespace("bank"))
		},
		"Kind": func(r *gatewayv1.HTTPRoute) { r.Spec.Rules[0].BackendRefs[0].Kind = new(gatewayv1.Kind("Secret")) },
		"Filter": func(r *gatewayv1.HTTPRoute) {
			r.Spec.Rules[0].Filters = []gatewayv1.HTTPRouteFilter{{Type: "RequestHeaderModifier", RequestHeaderModifier: &gatewayv1.HTTPHeaderFilter{Remove: []string{"authorization"}}}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			changed := made.DeepCopy()
			edit(changed)
			if err := account.Patch(t.Context(), changed, client.MergeFrom(&made), client.DryRunAll); !denied(err) {
				t.Errorf("it may be changed: %v", err)
			}
		})
	}
	ingress := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Namespace: trigger.Namespace, Name: "public", OwnerReferences: made.OwnerReferences}}
	ingress.Spec.DefaultBackend = &networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{Name: "report", Port: networkingv1.ServiceBackendPort{Number: 8080}}}
	if err := account.Create(t.Context(), ingress, client.DryRunAll); !denied(err) {
		t.Errorf("an Ingress may take all requests: %v", err)
	}
	host := string(made.Spec.Hostnames[0])
	path := networkingv1.HTTPIngressPath{Path: "/", PathType: new(networkingv1.PathTypePrefix), Backend: *ingress.Spec.DefaultBackend}
	served := ingress.DeepCopy()
	served.Name, served.Spec.DefaultBackend = trigger.Name, nil
	served.Spec.Rules = []networkingv1.IngressRule{{Host: host, IngressRuleValue: networkingv1.IngressRuleValue{HTTP: &networkingv1.HTTPIngressRuleValue{Paths: []networkingv1.HTTPIngressPath{path}}}}}
	for name, test := range map[string]struct {
		hosts   []string // of a second certificate
		allowed bool
	}{"Same": {[]string{host}, true}, "Other": {[]string{host, "bank.example"}, false}, "All": {nil, false}} {
		changed := served.DeepCopy()
		changed.Spec.TLS = []networkingv1.IngressTLS{{Hosts: []string{host}, SecretName: "first"}, {Hosts: test.hosts, SecretName: "second"}}
		if err := account.Create(t.Context(), changed, client.DryRunAll); denied(err) == test.allowed || test.allowed && err != nil {
			t.Errorf("an Ingress with a certificate for %s hosts: %v", name, err)
		}
	}
	foreign := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Namespace: trigger.Namespace, Name: "foreign"}, Spec: ingress.Spec}
	create(t, foreign)
	if err := account.Delete(t.Context(), foreign, client.DryRunAll); !denied(err) {
		t.Errorf("the Ingress of somebody else may be deleted: %v", err)
	}
}
