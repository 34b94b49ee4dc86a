package admission

import (
	"bytes"
	"cmp"
	"context"
	"crypto/subtle"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// certificateLife is how long a certificate is valid. It is renewed when renewBefore is left of that.
	certificateLife = 365 * 24 * time.Hour
	renewBefore     = certificateLife / 3

	defaultInterval = 10 * time.Second
)

// certManagerAnnotation is on the Secrets that cert-manager renews.
const certManagerAnnotation = "cert-manager.io/certificate-name"

// A keeper keeps a valid certificate in the Secret, makes the API server trust it, and gives it
// to the server. All replicas do that, and the first one to write decides.
type keeper struct {
	options Options
	client  client.Client
	log     logr.Logger
	serving atomic.Pointer[tls.Certificate]
	path    atomic.Pointer[string] // to which the API server sends its requests

	seen    *tls.Certificate // in the Secret, at the last look
	problem string           // that was logged last; empty when there was none
}

func newKeeper(c client.Client, log logr.Logger, o Options) *keeper {
	o.Interval = cmp.Or(o.Interval, defaultInterval)
	return &keeper{options: o, client: c, log: log, problem: "not started"}
}

// Start keeps the certificate until the context ends.
func (k *keeper) Start(ctx context.Context) error {
	wait.UntilWithContext(ctx, func(ctx context.Context) { k.report(k.keep(ctx, time.Now())) }, k.options.Interval)
	return nil
}

// NeedLeaderElection tells the manager that every replica has to do this.
func (k *keeper) NeedLeaderElection() bool { return false }

// certificate returns the certificate that the server serves.
func (k *keeper) certificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if served := k.serving.Load(); served != nil {
		return served, nil
	}
	return nil, errors.New("there is no certificate yet")
}

// ready is the readiness check of the webhook.
func (k *keeper) ready(*http.Request) error {
	_, err := k.certificate(nil)
	return err
}

// known tells whether a path is the one to which the API server sends its requests.
func (k *keeper) known(path string) bool {
	secret := k.path.Load()
	return secret != nil && subtle.ConstantTimeCompare([]byte(*secret), []byte(path)) == 1
}

// keep makes the Secret, the configuration of the webhook and the server agree. After an error the
// server still has a certificate, if it had one.
func (k *keeper) keep(ctx context.Context, now time.Time) error {
	secret := &corev1.Secret{}
	err := k.client.Get(ctx, client.ObjectKey{Namespace: k.options.Namespace, Name: Name}, secret)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading the certificate: %w", err)
	}
	p, err := k.pair(ctx, secret, now)
	if p.served == nil {
		return err
	}
	path := pathOf(secret)
	k.path.Store(&path)
	err = errors.Join(err, k.trust(ctx, p, path))
	k.serve(p)
	return err
}

// pathOf returns the path to which the API server sends its requests. The API server shows no
// certificate to a webhook, so that only this path tells it from other callers: it ends with the UID
// of the Secret, which is random, and which nobody knows who may not read the Secret or the
// configuration of the webhook. The path stays when the certificate is renewed.
func pathOf(secret *corev1.Secret) string { return pathPrefix + string(secret.UID) }

// serve serves a pair that was in the Secret at the last look already. One that is new waits until
// then, so that all API servers have learned to trust it, unless the one that is served is not trusted
// any more.
func (k *keeper) serve(p pair) {
	served := k.serving.Load()
	if served == nil || equal(k.seen, p.served) || !signedBy(served, p.trusted) {
		k.serving.Store(p.served)
	}
	k.seen = p.served
}

// pair returns the certificate in the Secret, after it has renewed that if need be. If it could not, it
// returns the certificate as it is, as long as that is valid.
func (k *keeper) pair(ctx context.Context, secret *corev1.Secret, now time.Time) (pair, error) {
	host := Name + "." + k.options.Namespace + ".svc"
	p, invalid := open(secret.Data, host, now)
	if _, ok := secret.Annotations[certManagerAnnotation]; ok {
		if invalid != nil {
			return p, fmt.Errorf("cert-manager has left a certificate that is of no use, delete Secret %s to have another: %w", Name, invalid)
		}
		return p, nil
	}
	if invalid == nil && signedBy(p.served, p.trusted) && now.Before(p.served.Leaf.NotAfter.Add(-renewBefore)) {
		return p, nil
	}
	issued, err := issue(host, certificateLife, p.trusted)
	if err != nil {
		return p, err
	}
	secret.Data = issued
	if err := k.store(ctx, secret); err != nil {
		return p, fmt.Errorf("storing a new certificate: %w", err)
	}
	return open(secret.Data, host, now)
}

// store updates the Secret, or creates it if it was not read from the API server.
func (k *keeper) store(ctx context.Context, secret *corev1.Secret) error {
	if secret.UID != "" {
		return k.client.Update(ctx, secret)
	}
	secret.ObjectMeta = metav1.ObjectMeta{
		Namespace: k.options.Namespace, Name: Name, Labels: map[string]string{"app.kubernetes.io/name": "goless-operator"},
	}
	secret.Type = corev1.SecretTypeTLS
	return k.client.Create(ctx, secret)
}

// trust writes into the configuration of the webhook which authorities the API server shall trust, and
// to which path it shall send its requests. A certificate of cert-manager may have no authorities,
// because API servers trust them anyway.
func (k *keeper) trust(ctx context.Context, p pair, path string) error {
	configuration := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	err := k.client.Get(ctx, client.ObjectKey{Name: Name}, configuration)
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Errorf("there is no ValidatingWebhookConfiguration %s: apply deploy/45-admission.yaml, or set admission: Disabled", Name)
	case err != nil:
		return fmt.Errorf("reading the configuration of the webhook: %w", err)
	}
	changed := false
	for i := range configuration.Webhooks {
		config := &configuration.Webhooks[i].ClientConfig
		if len(p.trusted) > 0 && !bytes.Equal(config.CABundle, p.trusted) {
			config.CABundle, changed = p.trusted, true
		}
		if service := config.Service; service != nil && (service.Path == nil || *service.Path != path) {
			service.Path, changed = &path, true
		}
	}
	if !changed {
		return nil
	}
	if err := k.client.Update(ctx, configuration); err != nil {
		return fmt.Errorf("writing the certificate to trust and the path to ask at: %w", err)
	}
	return nil
}

// report logs why webhook validation may be unavailable, and when it is available again. It logs a
// problem once, however often it is met. A conflict is none: another replica was faster, and the next
// look finds what it has written.
func (k *keeper) report(err error) {
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		return
	}
	problem := ""
	if err != nil {
		problem = err.Error()
	}
	if problem == k.problem {
		return
	}
	k.problem = problem
	if err != nil {
		k.log.Info("Webhook validation may be unavailable; without it only the reconciler validates Functions", "because", problem)
		return
	}
	k.log.Info("The webhook validates Functions")
}
