// Package admission is the validating webhook for Functions and FunctionClasses. With it, kubectl
// apply refuses Functions that the operator would refuse, with the same messages, which come from
// package validation, and classes whose pods the API server would refuse.
//
// The webhook looks at nothing but the Function, its class and its ServiceAccount, and it compiles
// nothing. While it does not answer, every Function can be applied, and its status says what is
// wrong with it. A replica of the operator without a certificate is not ready, but it reconciles.
//
//	validate.go           what is wrong with a Function
//	class.go              what is wrong with a FunctionClass
//	server.go             who is answered, and within which limits
//	certificatekeeper.go  how the certificate of the webhook is kept, and trusted by the API server
//	certificate.go        what a certificate is
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

// Name is that of the Service that leads to the webhook, of the Secret with its
// certificate, and of the ValidatingWebhookConfiguration.
const Name = "goless-webhook"

// Options say where the webhook is.
type Options struct {
	// Listener accepts the connections of the webhook, without TLS.
	Listener net.Listener

	// Namespace is that of the Service and of the Secret.
	Namespace string

	// Config is for a client of the API server with which every replica writes, and not only the
	// leader.
	Config *rest.Config

	// Metrics counts the answers.
	Metrics *metrics.Metrics

	// Interval is the time between two looks at the certificate, and at what the API server
	// trusts; 10 seconds when it is 0.
	Interval time.Duration
}

// Register makes the manager serve the webhook and keep its certificate, whether it leads or
// not. The manager is not ready before there is a certificate.
func Register(mgr manager.Manager, s settings.Settings, o Options) error {
	classes, err := class.New(mgr, s)
	if err != nil {
		return fmt.Errorf("watching FunctionClasses: %w", err)
	}
	// This is not the manager's client: that one writes only while this replica leads, and its cache does
	// not have what the keeper reads.
	c, err := client.New(o.Config, client.Options{Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper()})
	if err != nil {
		return fmt.Errorf("making a client for the webhook: %w", err)
	}
	keeper := newKeeper(c, mgr.GetLogger().WithName("admission"), o)
	webhook := &admission.Webhook{Handler: &validator{
		metrics: o.Metrics, settings: s, classes: classes, decoder: admission.NewDecoder(mgr.GetScheme()),
		accounts: validation.ServiceAccounts{Client: c, Namespace: o.Namespace},
		client:   c, namespace: o.Namespace,
	}}
	handler, err := admission.StandaloneWebhook(webhook, admission.StandaloneOptions{MetricsPath: metricsPath})
	if err != nil {
		return fmt.Errorf("setting up the webhook: %w", err)
	}
	return errors.Join(mgr.Add(keeper), mgr.Add(newServer(o, handler, keeper)), mgr.AddReadyzCheck("certificate", keeper.ready))
}
