// Command gateway is a gateway for the end-to-end tests, which runs in the cluster. It
// implements the parts of the Gateway API's HTTPRoutes and of Ingresses that triggers use, and
// writes their status. It replaces a gateway with Envoy or nginx. It handles the Gateways and
// Ingresses of the class goless-e2e.
//
//	main.go       reads the objects, and writes statuses
//	routes.go     the rules of HTTPRoutes
//	ingresses.go  the rules of Ingresses
//	proxy.go      routes requests
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

const (
	// class is the class of the handled Gateways and Ingresses.
	class = "goless-e2e"

	// controllerName is the controller in the status of routes.
	controllerName = "goless.io/e2e-gateway"
)

func main() {
	ctrl.SetLogger(zap.New())
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), gatewayv1.Install(scheme)); err != nil {
		log.Fatal(err)
	}
	mgr, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"}})
	if err != nil {
		log.Fatal(err)
	}
	g := &gateway{client: mgr.GetClient()}
	// After any change, all objects are read and evaluated.
	everything := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{}}
	})
	err = ctrl.NewControllerManagedBy(mgr).Named("gateway").
		Watches(&gatewayv1.Gateway{}, everything).
		Watches(&gatewayv1.HTTPRoute{}, everything).
		Watches(&networkingv1.Ingress{}, everything).
		Watches(&corev1.Service{}, everything).
		Complete(g)
	if err != nil {
		log.Fatal(err)
	}
	server := &http.Server{Addr: ":8080", Handler: &g.proxy, ReadHeaderTimeout: 10 * time.Second}
	go func() { log.Fatal(server.ListenAndServe()) }()
	log.Fatal(mgr.Start(ctrl.SetupSignalHandler()))
}

// gateway derives the rules of its proxy from the objects in the cluster.
type gateway struct {
	client client.Client
	proxy  proxy
}

// A world contains the objects in the cluster.
type world struct {
	gateways  gatewayv1.GatewayList
	routes    gatewayv1.HTTPRouteList
	ingresses networkingv1.IngressList
	services  map[client.ObjectKey]corev1.Service
}

// Reconcile reads all objects, updates the rules, and writes the statuses that have changed.
func (g *gateway) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	w, err := g.read(ctx)
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("reading what there is: %w", err)
	}
	var all rules
	var said []client.Object
	for i := range w.routes.Items {
		route := &w.routes.Items[i]
		before := route.Status.DeepCopy()
		all = append(all, w.admit(route)...)
		if !equality.Semantic.DeepEqual(*before, route.Status) {
			said = append(said, route)
		}
	}
	for i := range w.ingresses.Items {
		ingress := &w.ingresses.Items[i]
		before := ingress.Status.DeepCopy()
		all = append(all, w.admitIngress(ingress)...)
		if !equality.Semantic.DeepEqual(*before, ingress.Status) {
			said = append(said, ingress)
		}
	}
	all.sort()
	g.proxy.rules.Store(&all) // their statuses are current
	var errs []error
	for _, object := range said {
		errs = append(errs, g.client.Status().Update(ctx, object))
	}
	return reconcile.Result{}, errors.Join(errs...)
}

func (g *gateway) read(ctx context.Context) (*world, error) {
	w := &world{services: map[client.ObjectKey]corev1.Service{}}
	var services corev1.ServiceList
	err := errors.Join(
		g.client.List(ctx, &w.gateways), g.client.List(ctx, &w.routes),
		g.client.List(ctx, &w.ingresses), g.client.List(ctx, &services),
	)
	for _, s := range services.Items {
		w.services[client.ObjectKeyFromObject(&s)] = s
	}
	return w, err
}
