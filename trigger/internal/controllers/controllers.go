// Package controllers sets up the manager for triggers: its cache, its reconcilers and its metrics.
package controllers

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/client-go/discovery"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"goless.io/operator/api/v1beta1"
	"goless.io/trigger/api/v1alpha1"
	"goless.io/trigger/internal/apply"
	"goless.io/trigger/internal/consumer"
	"goless.io/trigger/internal/cron"
	"goless.io/trigger/internal/gateway"
	"goless.io/trigger/internal/keda"
	"goless.io/trigger/internal/trigger"
)

// Images are the images of the pods of triggers.
type Images struct {
	// Deliver is the image of cmd/deliver, and Consume the image of cmd/consume.
	Deliver, Consume string
}

// httpRoute is the kind of the Gateway API that HTTPTriggers create, and gatewayKind the kind that
// they reference. A cluster with a service mesh may have only the kind HTTPRoute.
var (
	httpRoute   = schema.GroupVersionKind{Group: gatewayv1.GroupName, Version: gatewayv1.GroupVersion.Version, Kind: "HTTPRoute"}
	gatewayKind = schema.GroupVersionKind{Group: gatewayv1.GroupName, Version: gatewayv1.GroupVersion.Version, Kind: "Gateway"}
)

// ManagerOptions returns the options of a manager for the reconcilers. Its cache contains the
// triggers, their objects, and the Functions without their source. namespaces restricts the cache;
// nil means all namespaces. Register may add the metadata of Gateways.
func ManagerOptions(config *rest.Config, namespaces map[string]cache.Config) (manager.Options, error) {
	scheme := runtime.NewScheme()
	ofTriggers, err := labels.NewRequirement(v1alpha1.TriggerLabel, selection.Exists, nil)
	if err := errors.Join(err, clientgoscheme.AddToScheme(scheme), v1beta1.AddToScheme(scheme), v1alpha1.AddToScheme(scheme), gatewayv1.Install(scheme)); err != nil {
		return manager.Options{}, fmt.Errorf("setting up the manager: %w", err)
	}
	labelled := labels.NewSelector().Add(*ofTriggers)
	cached := map[client.Object]cache.ByObject{
		&v1beta1.Function{}:      {Transform: withoutSource},
		&v1alpha1.CronTrigger{}:  {},
		&v1alpha1.HTTPTrigger{}:  {},
		&v1alpha1.KafkaTrigger{}: {},
		&v1alpha1.NATSTrigger{}:  {},
		&corev1.Namespace{}:      {Transform: annotationsOnly},
		&networkingv1.Ingress{}:  {Label: labelled},
		&appsv1.Deployment{}:     {Label: labelled},
		&corev1.Service{}:        {Label: labelled},
		&batchv1.CronJob{}:       {Label: labelled},
		&batchv1.Job{}:           {Label: labelled, Transform: withoutTemplate},
		&corev1.Pod{}:            {Label: labelled, Transform: statusOnly},
	}
	mapper, err := mapperOf(config)
	if err != nil {
		return manager.Options{}, fmt.Errorf("discovering API kinds: %w", err)
	}
	// The cache cannot start with a kind that does not exist.
	for kind, object := range map[schema.GroupVersionKind]client.Object{httpRoute: &gatewayv1.HTTPRoute{}, keda.GroupVersionKind: keda.New()} {
		if exists, err := has(mapper, kind); err != nil {
			return manager.Options{}, fmt.Errorf("discovering %s: %w", kind, err)
		} else if exists {
			cached[object] = cache.ByObject{Label: labelled}
		}
	}
	return manager.Options{
		Scheme: scheme,
		Cache:  cache.Options{DefaultNamespaces: namespaces, ByObject: cached, ReaderFailOnMissingInformer: true},
		Client: client.Options{FieldOwner: apply.FieldOwner},
	}, nil
}

func mapperOf(config *rest.Config) (meta.RESTMapper, error) {
	requests, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	return apiutil.NewDynamicRESTMapper(config, requests)
}

// Register adds the reconcilers to a manager with the options of ManagerOptions. allNamespaces is
// false if its cache is restricted to some namespaces; Gateways in others are then unknown.
func Register(mgr manager.Manager, images Images, allNamespaces bool) error {
	hasRoutes, err := has(mgr.GetRESTMapper(), httpRoute)
	if err != nil {
		return err
	}
	hasGateways, err := has(mgr.GetRESTMapper(), gatewayKind)
	if err != nil {
		return err
	}
	scaled, err := has(mgr.GetRESTMapper(), keda.GroupVersionKind)
	if err != nil {
		return err
	}
	crons := trigger.Reconciler[*v1alpha1.CronTrigger, cron.Seen]{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Events: mgr.GetEventRecorder(apply.FieldOwner),
		Kind: cron.Kind{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Image: images.Deliver},
	}
	hosts := gateway.Kind{Client: mgr.GetClient(), Gateways: hasRoutes && hasGateways}
	if hosts.Gateways && allNamespaces {
		if hosts.GatewaysCached, err = mayList(context.Background(), mgr.GetAPIReader(), gatewayKind); err != nil {
			return err
		}
		if !hosts.GatewaysCached {
			mgr.GetLogger().Info("no permission to list Gateways: the status of HTTPTriggers does not report missing ones; restart after granting it")
		}
	}
	routes := trigger.Reconciler[*v1alpha1.HTTPTrigger, gateway.Seen]{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Events: mgr.GetEventRecorder(apply.FieldOwner), Kind: hosts,
	}
	exposes := trigger.Watched{
		Owned:          []client.Object{&networkingv1.Ingress{}},
		CompetingKinds: []client.Object{&v1alpha1.HTTPTrigger{}}, Competing: hosts.Competing, OfNamespace: hosts.OfNamespace,
	}
	if hasRoutes {
		exposes.Owned = append(exposes.Owned, &gatewayv1.HTTPRoute{})
	}
	if hosts.GatewaysCached {
		exposes.Referenced, exposes.OfReferenced = &gatewayv1.Gateway{}, hosts.OfGateway
	}
	consumes := trigger.Watched{
		Owned: []client.Object{&appsv1.Deployment{}, &corev1.Service{}}, Labelled: []client.Object{&corev1.Pod{}},
		CompetingKinds: []client.Object{&v1alpha1.KafkaTrigger{}, &v1alpha1.NATSTrigger{}},
	}
	if scaled {
		consumes.Owned = append(consumes.Owned, keda.New())
	}
	return errors.Join(
		gateway.Index(context.Background(), mgr.GetFieldIndexer()),
		crons.Register(mgr, trigger.Watched{Owned: []client.Object{&batchv1.CronJob{}}, Labelled: []client.Object{&batchv1.Job{}, &corev1.Pod{}}}),
		routes.Register(mgr, exposes),
		registerConsuming(mgr, consumes, consumer.Kind[*v1alpha1.KafkaTrigger]{
			Client: mgr.GetClient(), Image: images.Consume, KEDA: scaled, Program: consumer.Kafka, Ask: consumer.Ask,
			Empty: func() *v1alpha1.KafkaTrigger { return &v1alpha1.KafkaTrigger{} },
		}),
		registerConsuming(mgr, consumes, consumer.Kind[*v1alpha1.NATSTrigger]{
			Client: mgr.GetClient(), Image: images.Consume, KEDA: scaled, Program: consumer.NATS, Ask: consumer.Ask,
			Empty: func() *v1alpha1.NATSTrigger { return &v1alpha1.NATSTrigger{} },
		}),
		watchKinds(mgr, map[schema.GroupVersionKind]bool{httpRoute: hasRoutes, gatewayKind: hasGateways, keda.GroupVersionKind: scaled}),
	)
}

// watchKinds stops the manager within a minute after one of the kinds is added to or removed from
// the cluster.
func watchKinds(mgr manager.Manager, had map[schema.GroupVersionKind]bool) error {
	d, err := discovery.NewDiscoveryClientForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return err
	}
	return mgr.Add(KindWatch{Discovery: d, Pause: time.Minute, Had: had})
}

// registerConsuming adds the reconciler of a kind that consumes a stream.
func registerConsuming[T v1alpha1.StreamTrigger](mgr manager.Manager, w trigger.Watched, kind consumer.Kind[T]) error {
	w.Competing = kind.Competing
	r := trigger.Reconciler[T, consumer.Seen]{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Events: mgr.GetEventRecorder(apply.FieldOwner), Kind: kind,
	}
	return r.Register(mgr, w)
}

// has reports whether the cluster has a kind. It is called before the start, because an informer
// for a kind that does not exist would prevent the start of the manager.
func has(mapper meta.RESTMapper, kind schema.GroupVersionKind) (bool, error) {
	_, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if meta.IsNoMatchError(err) {
		return false, nil
	}
	return err == nil, err
}

// mayList reports whether RBAC allows listing the objects of a kind in all namespaces. It is called
// before the start, because an informer without this permission would prevent the start of all
// reconcilers.
func mayList(ctx context.Context, live client.Reader, kind schema.GroupVersionKind) (bool, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	err := live.List(ctx, list, client.Limit(1))
	if apierrors.IsForbidden(err) {
		return false, nil
	}
	return err == nil, err
}

func annotationsOnly(obj any) (any, error) {
	if namespace, ok := obj.(*corev1.Namespace); ok {
		namespace.ManagedFields, namespace.Labels = nil, nil
	}
	return obj, nil
}

// withoutSource removes the large fields of a Function that triggers do not use.
func withoutSource(obj any) (any, error) {
	if fn, ok := obj.(*v1beta1.Function); ok {
		fn.ManagedFields, fn.Annotations = nil, nil
		fn.Spec.Function, fn.Spec.Env, fn.Spec.EnvFrom, fn.Status.Build = "", nil, nil, nil
	}
	return obj, nil
}

func withoutTemplate(obj any) (any, error) {
	if job, ok := obj.(*batchv1.Job); ok {
		job.ManagedFields, job.Spec = nil, batchv1.JobSpec{}
	}
	return obj, nil
}

func statusOnly(obj any) (any, error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return obj, nil
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: pod.Name, Namespace: pod.Namespace, UID: pod.UID, ResourceVersion: pod.ResourceVersion,
			Labels: pod.Labels, OwnerReferences: pod.OwnerReferences, DeletionTimestamp: pod.DeletionTimestamp,
		},
		Status: corev1.PodStatus{PodIP: pod.Status.PodIP, Conditions: pod.Status.Conditions, ContainerStatuses: pod.Status.ContainerStatuses},
	}, nil
}
