package admission

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const (
	year = 365 * 24 * time.Hour

	// settle is how long a new certificate is trusted before it is served, until
	// each API server has heard of that; less when certificates live for seconds.
	settle = 5 * time.Second

	// retry is for what somebody else has to mend, and raceRetry for what the other
	// replica was faster to write.
	retry     = 30 * time.Second
	raceRetry = time.Second

	// glance is how often a clock that was stopped is noticed.
	glance = time.Hour
)

// certManaged is the annotation that cert-manager gives to its Secrets. It renews
// them itself.
const certManaged = "cert-manager.io/certificate-name"

// keeper keeps a valid certificate in the Secret, lets the API server trust it, and
// has it for the server. All replicas do that, and the first to write wins.
type keeper struct {
	options Options
	client  client.Client
	start   func(context.Context) error
	log     logr.Logger
	serving atomic.Pointer[tls.Certificate]

	// next is what will be served, and since when it is known.
	next  *tls.Certificate
	since time.Time

	mu   sync.Mutex
	said map[string]string // what was said last, by what it is about
}

// Start keeps the certificate until the context ends.
func (k *keeper) Start(ctx context.Context) error { return k.start(ctx) }

// NeedLeaderElection tells the manager that every replica has to do this.
func (k *keeper) NeedLeaderElection() bool { return false }

// certificate is what the server serves.
func (k *keeper) certificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if served := k.serving.Load(); served != nil {
		return served, nil
	}
	return nil, errors.New("there is no certificate yet")
}

// Reconcile looks at the Secret and at the configuration of the webhook. It never
// fails: what is missing is said once and tried again.
func (k *keeper) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	now := time.Now()
	p, renewal, err := k.pair(ctx, now)
	var untrusted error
	if err == nil {
		untrusted = k.trust(ctx, p)
	}
	switch err := errors.Join(err, untrusted); {
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
		return reconcile.Result{RequeueAfter: raceRetry}, nil
	case p.served == nil:
		k.complain("writing", err)
		return reconcile.Result{RequeueAfter: retry}, nil
	case untrusted != nil:
		k.complain("writing", err)
		renewal = now.Add(retry)
	default:
		k.content()
	}
	if wait := k.wait(p, now); wait > 0 {
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	k.serving.Store(p.served)
	return reconcile.Result{RequeueAfter: min(max(renewal.Sub(now), raceRetry), glance)}, nil
}

// wait is how long a pair has to be known before it is served. That is not at all
// where the one that is served is not trusted any more.
func (k *keeper) wait(p pair, now time.Time) time.Duration {
	served := k.serving.Load()
	if served == nil || same(served, p.served) || !authentic(served, p.trusted) {
		return 0
	}
	if !same(k.next, p.served) {
		k.next, k.since = p.served, now
	}
	return k.since.Add(min(settle, k.options.Life/6)).Sub(now)
}

// pair is the certificate of the Secret, made anew when it is not there, no good, or
// old.
func (k *keeper) pair(ctx context.Context, now time.Time) (p pair, renewal time.Time, err error) {
	secret := &corev1.Secret{}
	host := Name + "." + k.options.Namespace + ".svc"
	err = k.client.Get(ctx, client.ObjectKey{Namespace: k.options.Namespace, Name: Name}, secret)
	if client.IgnoreNotFound(err) != nil {
		return pair{}, time.Time{}, fmt.Errorf("reading the certificate: %w", err)
	}
	p, broken := open(secret.Data, host, now)
	if _, foreign := secret.Annotations[certManaged]; foreign {
		if broken != nil {
			broken = fmt.Errorf("cert-manager has left a certificate that is of no use, delete Secret %s to have another: %w", Name, broken)
		}
		return p, now.Add(glance), broken
	}
	if broken == nil && authentic(p.served, p.trusted) {
		if renewal = p.served.Leaf.NotAfter.Add(-k.options.Life / 3); now.Before(renewal) {
			return p, renewal, nil
		}
	}
	if secret.Data, err = issue(host, k.options.Life, p.trusted); err != nil {
		return p, time.Time{}, err
	}
	if err := k.store(ctx, secret); err != nil {
		return p, time.Time{}, fmt.Errorf("storing a new certificate: %w", err)
	}
	p, err = open(secret.Data, host, now)
	return p, now.Add(k.options.Life * 2 / 3), err
}

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

// trust writes into the configuration of the webhook what has to be trusted. It
// leaves alone what has a certificate that everybody trusts.
func (k *keeper) trust(ctx context.Context, p pair) error {
	configuration := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	err := k.client.Get(ctx, client.ObjectKey{Name: Name}, configuration)
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Errorf("there is no ValidatingWebhookConfiguration %s: apply deploy/45-admission.yaml, or set admission: Disabled", Name)
	case err != nil:
		return fmt.Errorf("reading the configuration of the webhook: %w", err)
	case len(p.trusted) == 0:
		return nil
	}
	changed := false
	for i := range configuration.Webhooks {
		config := &configuration.Webhooks[i].ClientConfig
		if !bytes.Equal(config.CABundle, p.trusted) {
			config.CABundle, changed = p.trusted, true
		}
	}
	if !changed {
		return nil
	}
	if err := k.client.Update(ctx, configuration); err != nil {
		return fmt.Errorf("writing the certificate to trust: %w", err)
	}
	return nil
}

// complain says what keeps Functions from being judged, once for as long as it
// does. What is about one thing takes the place of what was said of it before.
func (k *keeper) complain(about string, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if text := err.Error(); k.said[about] != text {
		k.said[about] = text
		k.log.Info("Functions may not be judged when they are applied, and the reconciler does it alone", "because", text)
	}
}

// content says that they are judged now.
func (k *keeper) content() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.said) > 0 || k.serving.Load() == nil {
		k.log.Info("Functions are judged when they are applied")
	}
	clear(k.said)
}

// forever is as long as a wait can be.
const forever = time.Duration(math.MaxInt64)
