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
	// certificateLife is the validity of a certificate. It is renewed when renewBefore remains.
	certificateLife = 365 * 24 * time.Hour
	renewBefore     = certificateLife / 3

	defaultInterval = 10 * time.Second
)

// certManagerAnnotation is an annotation of Secrets that cert-manager manages.
const certManagerAnnotation = "cert-manager.io/certificate-name"

// certificates issues and renews the certificate in the Secret, lets the API server trust it, and
// provides it to the server. Every replica does so; the first write wins.
type certificates struct {
	options Options
	client  client.Client
	log     logr.Logger
	serving atomic.Pointer[tls.Certificate]
	path    atomic.Pointer[string] // path to which the API server sends its requests

	seen        *tls.Certificate // certificate in the Secret at the previous check
	lastProblem string           // last logged problem; empty if there is none
}

func newCertificates(cl client.Client, log logr.Logger, o Options) *certificates {
	o.Interval = cmp.Or(o.Interval, defaultInterval)
	return &certificates{options: o, client: cl, log: log, lastProblem: "not started"}
}

// Start checks the certificate at each interval until the context ends.
func (c *certificates) Start(ctx context.Context) error {
	wait.UntilWithContext(ctx, func(ctx context.Context) { c.logResult(c.sync(ctx, time.Now())) }, c.options.Interval)
	return nil
}

// NeedLeaderElection returns false: every replica checks the certificate.
func (c *certificates) NeedLeaderElection() bool { return false }

// certificate returns the certificate for the server.
func (c *certificates) certificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if served := c.serving.Load(); served != nil {
		return served, nil
	}
	return nil, errors.New("no certificate yet")
}

// ready is the readiness check of the webhook.
func (c *certificates) ready(*http.Request) error {
	_, err := c.certificate(nil)
	return err
}

// isWebhookPath reports whether path is the path to which the API server sends its requests.
func (c *certificates) isWebhookPath(path string) bool {
	secret := c.path.Load()
	return secret != nil && subtle.ConstantTimeCompare([]byte(*secret), []byte(path)) == 1
}

// sync updates the Secret, the webhook configuration and the certificate of the server. After an
// error the server keeps its certificate.
func (c *certificates) sync(ctx context.Context, now time.Time) error {
	secret := &corev1.Secret{}
	err := c.client.Get(ctx, client.ObjectKey{Namespace: c.options.Namespace, Name: Name}, secret)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading the certificate: %w", err)
	}
	p, err := c.ensureKeyPair(ctx, secret, now)
	if p.served == nil {
		return err
	}
	path := pathOf(secret)
	c.path.Store(&path)
	err = errors.Join(err, c.updateWebhook(ctx, p, path))
	c.serve(p)
	return err
}

// pathOf returns the path to which the API server sends its requests. The API server does not
// authenticate to webhooks, so the path distinguishes it from other clients: it contains the UID of
// the Secret, which is known only to clients that may read the Secret or the webhook configuration.
// The path does not change when the certificate is renewed.
func pathOf(secret *corev1.Secret) string { return pathPrefix + string(secret.UID) }

// serve sets the certificate of the server. A new certificate is served from the second check on,
// when all API servers trust it, or at once if the current one is no longer trusted.
func (c *certificates) serve(p keyPair) {
	served := c.serving.Load()
	if served == nil || equal(c.seen, p.served) || !signedBy(served, p.trusted) {
		c.serving.Store(p.served)
	}
	c.seen = p.served
}

// ensureKeyPair returns the key pair in the Secret after renewing it if necessary. If the renewal
// fails, it returns the current key pair with the error, as long as that is valid.
func (c *certificates) ensureKeyPair(ctx context.Context, secret *corev1.Secret, now time.Time) (keyPair, error) {
	host := Name + "." + c.options.Namespace + ".svc"
	p, invalid := parseKeyPair(secret.Data, host, now)
	if _, ok := secret.Annotations[certManagerAnnotation]; ok {
		if invalid != nil {
			return p, fmt.Errorf("cert-manager issued an unusable certificate in Secret %s: %w; delete the Secret to request another one", Name, invalid)
		}
		return p, nil
	}
	if invalid == nil && signedBy(p.served, p.trusted) && now.Before(p.served.Leaf.NotAfter.Add(-renewBefore)) {
		return p, nil
	}
	issued, err := issueKeyPair(host, certificateLife, p.trusted)
	if err != nil {
		return p, err
	}
	secret.Data = issued
	if err := c.store(ctx, secret); err != nil {
		return p, fmt.Errorf("storing the new certificate: %w", err)
	}
	return parseKeyPair(secret.Data, host, now)
}

// store updates the Secret, or creates it if it does not exist.
func (c *certificates) store(ctx context.Context, secret *corev1.Secret) error {
	if secret.UID != "" {
		return c.client.Update(ctx, secret)
	}
	secret.ObjectMeta = metav1.ObjectMeta{
		Namespace: c.options.Namespace, Name: Name, Labels: map[string]string{"app.kubernetes.io/name": "goless-operator"},
	}
	secret.Type = corev1.SecretTypeTLS
	return c.client.Create(ctx, secret)
}

// updateWebhook writes the certificate authorities and the path to the webhook configuration. A
// Secret of cert-manager may contain no authority, if API servers already trust it.
func (c *certificates) updateWebhook(ctx context.Context, p keyPair, path string) error {
	configuration := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	err := c.client.Get(ctx, client.ObjectKey{Name: Name}, configuration)
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Errorf("ValidatingWebhookConfiguration %s not found; apply deploy/45-admission.yaml, or set admission: Disabled", Name)
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
	if err := c.client.Update(ctx, configuration); err != nil {
		return fmt.Errorf("writing caBundle and path of the webhook: %w", err)
	}
	return nil
}

// logResult logs why the webhook may be unavailable, and when it is available again. It logs a
// problem once until it changes. Conflicts are ignored: another replica was faster, and the next
// check reads its result.
func (c *certificates) logResult(err error) {
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		return
	}
	problem := ""
	if err != nil {
		problem = err.Error()
	}
	if problem == c.lastProblem {
		return
	}
	c.lastProblem = problem
	if err != nil {
		c.log.Info("Webhook validation may be unavailable; without it only the reconciler validates Functions", "because", problem)
		return
	}
	c.log.Info("The webhook validates Functions")
}
