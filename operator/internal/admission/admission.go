// Package admission implements the validating webhook for Functions and FunctionClasses. It rejects
// invalid Functions with the same messages as the reconciler, and classes with pod fields that the
// API server would reject (see classErrors). It also rejects values above the maximums of the
// cluster (the reconciler would use the maximum instead), and spec.build.test with the build
// strategy InPod (the reconciler would report TestsFailed).
//
// To validate a Function, the webhook uses only the Function, the settings, its class, the labels of
// its namespace, and a SelfSubjectAccessReview for its ServiceAccount. It does not compile the
// source. If it is unavailable, every Function is stored, and the reconciler reports errors in the
// status. A replica of the operator without a certificate is not ready, but reconciles Functions.
//
//	validate.go      validates Functions
//	class.go         validates FunctionClasses
//	server.go        the HTTPS server and its limits
//	certificates.go  issues and renews the certificate, and updates the webhook configuration
//	keypair.go       creates and parses certificates
package admission

import (
	"errors"
	"fmt"
	"net"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"goless.io/operator/internal/class"
	"goless.io/operator/internal/metrics"
	"goless.io/operator/internal/settings"
	"goless.io/operator/internal/validation"
)

// Name is the name of the webhook's Service, of the Secret with its certificate, and of the
// ValidatingWebhookConfiguration.
const Name = "goless-webhook"

// Options configure the webhook.
type Options struct {
	// Listener accepts the connections of the webhook, before TLS.
	Listener net.Listener

	// Namespace is the namespace of the Service and of the Secret.
	Namespace string

	// Config is used for a client that can write on every replica. The client of the manager can
	// write only on the leader.
	Config *rest.Config

	// Metrics counts the responses.
	Metrics *metrics.Metrics

	// Interval is the time between two checks of the certificate and of the webhook configuration.
	// Default: 10 seconds.
	Interval time.Duration
}

// Register adds the webhook and the management of its certificate to the manager. Both run on every
// replica, not only on the leader. The manager is not ready until there is a certificate.
func Register(mgr manager.Manager, s settings.Settings, o Options) error {
	classes, err := class.New(mgr, s)
	if err != nil {
		return fmt.Errorf("watching FunctionClasses: %w", err)
	}
	// Not the client of the manager, which writes only on the leader and whose cache does not
	// contain the Secret and the configuration.
	c, err := client.New(o.Config, client.Options{Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper()})
	if err != nil {
		return fmt.Errorf("creating a client for the webhook: %w", err)
	}
	certs := newCertificates(c, mgr.GetLogger().WithName("admission"), o)
	webhook := &admission.Webhook{Handler: &validator{
		metrics: o.Metrics, settings: s, classes: classes, decoder: admission.NewDecoder(mgr.GetScheme()),
		accounts: validation.ServiceAccounts{Client: c, Namespace: o.Namespace},
		client:   c, namespace: o.Namespace,
	}}
	handler, err := admission.StandaloneWebhook(webhook, admission.StandaloneOptions{MetricsPath: metricsPath})
	if err != nil {
		return fmt.Errorf("setting up the webhook: %w", err)
	}
	return errors.Join(mgr.Add(certs), mgr.Add(newServer(o, handler, certs)), mgr.AddReadyzCheck("certificate", certs.ready))
}
