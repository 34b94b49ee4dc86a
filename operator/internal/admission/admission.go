// Package admission owns the answer that a Function gets at kubectl apply: it is
// refused when the operator would refuse it, in the same words. It also owns how
// the API server comes to trust the answer, the certificate of the webhook.
//
// It refuses to know what is wrong with a Function, which package check does, and
// anything that takes more than the Function itself to know: it looks at nothing
// else in the cluster and it compiles nothing. Nothing depends on it either. While
// it does not answer, everything can be applied, and the status says what came of
// it.
package admission

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"goless.io/operator/internal/metrics"
	"goless.io/operator/internal/settings"
)

// Name is that of the Service that leads to the webhook, of the Secret with its
// certificate, and of the ValidatingWebhookConfiguration.
const Name = "goless-webhook"

// path is where the API server asks.
const path = "/functions"

// Options say where the webhook is.
type Options struct {
	// Listener is where it is served.
	Listener net.Listener

	// Namespace is that of the Service and of the Secret.
	Namespace string

	// Config is for the API server. Every replica writes with it, the leader or not.
	Config *rest.Config

	// Metrics count the answers.
	Metrics *metrics.Metrics

	// Life is how long a certificate is valid; a year when it is 0. It is renewed
	// when a third of that is left.
	Life time.Duration
}

// Register makes the manager serve the webhook and keep its certificate, whether
// it leads or not.
func Register(mgr manager.Manager, s settings.Settings, o Options) error {
	keeper, err := newKeeper(mgr, o)
	if err != nil {
		return fmt.Errorf("watching the certificate of admission: %w", err)
	}
	webhook := &admission.Webhook{Handler: counted(o.Metrics, &judge{settings: s, decoder: admission.NewDecoder(mgr.GetScheme())})}
	handler, err := admission.StandaloneWebhook(webhook, admission.StandaloneOptions{MetricsPath: path})
	if err != nil {
		return fmt.Errorf("setting up the webhook: %w", err)
	}
	return errors.Join(mgr.Add(keeper), mgr.Add(newServer(o, handler, keeper)))
}

func newServer(o Options, handler http.Handler, keeper *keeper) *manager.Server {
	mux := http.NewServeMux()
	mux.Handle("POST "+path, bounded(handler, func() { o.Metrics.Judged(metrics.Unjudged) }))
	return &manager.Server{
		Name: "webhook",
		Server: &http.Server{
			Handler:           mux,
			ReadHeaderTimeout: 5 * time.Second,
			ReadTimeout:       10 * time.Second,
			WriteTimeout:      30 * time.Second,
			IdleTimeout:       2 * time.Minute,
			MaxHeaderBytes:    16 << 10,
			// A caller that hangs up is no event, nor is one without a certificate yet.
			ErrorLog: slog.NewLogLogger(logr.ToSlogHandler(keeper.log.V(1)), slog.LevelInfo),
		},
		Listener: tls.NewListener(o.Listener, &tls.Config{
			MinVersion:     tls.VersionTLS13,
			NextProtos:     []string{"h2", "http/1.1"},
			GetCertificate: keeper.certificate,
		}),
		// Less than it takes to notice; the lease is released after that.
		ShutdownTimeout: new(time.Second),
	}
}
