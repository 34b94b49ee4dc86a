package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// A moduleProxy serves the modules that the functions of the tests require. The operator uses
// it during the tests.
type moduleProxy struct {
	namespace string
	settings  corev1.ConfigMap // as they were before
}

// startModuleProxy starts modproxy in the cluster and configures the operator to use it.
func startModuleProxy(ctx context.Context) (*moduleProxy, error) {
	image := os.Getenv("MODPROXY_IMAGE")
	if image == "" {
		return nil, errors.New("MODPROXY_IMAGE is not set: run make e2e, which makes that image")
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "goless-e2e-modules-"}}
	if err := cluster.Create(ctx, namespace); err != nil {
		return nil, err
	}
	p := &moduleProxy{namespace: namespace.Name}
	err := errors.Join(
		cluster.Create(ctx, p.deployment(image)),
		cluster.Create(ctx, p.service()),
		cluster.Get(ctx, client.ObjectKey{Namespace: systemNamespace, Name: operatorName}, &p.settings),
	)
	if err == nil {
		_, err = kubectl(ctx, "-n", p.namespace, "rollout", "status", "deployment/modules", "--timeout="+patience.String())
	}
	var settings string
	if err == nil {
		settings, err = p.changed()
	}
	if err == nil {
		err = configure(ctx, settings)
	}
	if err != nil {
		return nil, errors.Join(err, p.remove(ctx))
	}
	return p, nil
}

// changed returns the settings for the tests: the module proxy, and a build timeout that is
// sufficient for a busy machine.
func (p *moduleProxy) changed() (string, error) {
	var settings map[string]any
	if err := yaml.Unmarshal([]byte(p.settings.Data["config.yaml"]), &settings); err != nil {
		return "", err
	}
	build, ok := settings["build"].(map[string]any)
	if !ok {
		build = map[string]any{}
	}
	build["timeout"] = patience.String()
	build["modules"] = map[string]any{"goProxy": fmt.Sprintf("http://modules.%s.svc:8080", p.namespace), "goSumDB": "off"}
	settings["build"] = build
	text, err := yaml.Marshal(settings)
	return string(text), err
}

// configure changes the settings of the operator, which it reads at start.
func configure(ctx context.Context, settings string) error {
	patch, err := json.Marshal(map[string]any{"data": map[string]string{"config.yaml": settings}})
	if err == nil {
		_, err = kubectl(ctx, "-n", systemNamespace, "patch", "configmap/"+operatorName, "--type=merge", "--patch="+string(patch))
	}
	if err == nil {
		_, err = kubectl(ctx, "-n", systemNamespace, "rollout", "restart", "deployment/"+operatorName)
	}
	if err == nil {
		_, err = kubectl(ctx, "-n", systemNamespace, "rollout", "status", "deployment/"+operatorName, "--timeout="+patience.String())
	}
	return err
}

func (p *moduleProxy) remove(ctx context.Context) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: p.namespace}}
	err := cluster.Delete(ctx, namespace)
	if p.settings.Name != "" {
		err = errors.Join(err, configure(ctx, p.settings.Data["config.yaml"]))
	}
	return err
}

func (p *moduleProxy) deployment(image string) *appsv1.Deployment {
	labels := map[string]string{"app": "modules"}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: "modules"}}
	d.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
	d.Spec.Template.Labels = labels
	d.Spec.Template.Spec.Containers = []corev1.Container{{
		Name:  "modproxy",
		Image: image,
		ReadinessProbe: &corev1.Probe{
			PeriodSeconds: 1,
			ProbeHandler:  corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(8080)}},
		},
	}}
	return d
}

func (p *moduleProxy) service() *corev1.Service {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: "modules"}}
	s.Spec.Selector = map[string]string{"app": "modules"}
	s.Spec.Ports = []corev1.ServicePort{{Port: 8080}}
	return s
}
