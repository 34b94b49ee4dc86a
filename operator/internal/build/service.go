package build

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/builder/remote"
)

// Where deploy/ has the build service.
const (
	// Namespace is that of the service and of the Secret.
	Namespace = "goless-system"

	// SecretName is the Secret that makes the service and the operator trust each
	// other.
	SecretName = "goless-build"

	// URL is where the service answers, the operator and pods.
	URL = "https://goless-build.goless-system.svc:8443"

	seedKey = "seed"
)

// maxPrepare bounds the pause between two tries to make the seed.
const maxPrepare = time.Minute

// Service is the build service. The seed is read when the first order goes out, and
// again when the service has another: somebody may have put that one there.
type Service struct {
	// URL is where it answers.
	URL string

	// Live reads from the API server, and Client writes to it.
	Live   client.Reader
	Client client.Client

	mu   sync.Mutex
	last *connection
}

// connection is a client with the keys that it was made with.
type connection struct {
	url    string
	keys   *remote.Keys
	client *remote.Client
}

// prepare makes sure that there is a seed. It gives up where nobody will let it.
func (s *Service) prepare(ctx context.Context) error {
	for pause := time.Second; ; pause = min(2*pause, maxPrepare) {
		_, err := s.connect(ctx)
		if err == nil || apierrors.IsForbidden(err) || apierrors.IsNotFound(err) || apierrors.IsInvalid(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}

func (s *Service) connect(ctx context.Context) (*connection, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last != nil {
		return s.last, nil
	}
	seed, err := s.seed(ctx)
	if err != nil {
		return nil, err
	}
	keys, err := remote.NewKeys(seed)
	if err != nil {
		return nil, fmt.Errorf("reading Secret %q of %s, delete it to have it made anew: %w", SecretName, Namespace, err)
	}
	s.last = &connection{url: s.URL, keys: keys, client: remote.NewClient(s.URL, keys)}
	return s.last, nil
}

// failed drops a connection whose keys may be the reason that it failed.
func (s *Service) failed(c *connection, err error) {
	refused, said := errors.AsType[*remote.StatusError](err)
	if !errors.Is(err, remote.ErrSeed) && (!said || refused.Code != http.StatusUnauthorized) {
		return
	}
	s.mu.Lock()
	if s.last == c {
		s.last = nil
	}
	s.mu.Unlock()
}

// seed reads the Secret, and makes it where it is not there. Who has made it first
// has decided.
func (s *Service) seed(ctx context.Context) ([]byte, error) {
	secret := &corev1.Secret{}
	secret.Namespace, secret.Name = Namespace, SecretName
	key := client.ObjectKeyFromObject(secret)
	err := s.Live.Get(ctx, key, secret)
	if apierrors.IsNotFound(err) {
		seed := make([]byte, remote.SeedSize)
		_, _ = rand.Read(seed) // it never fails
		secret.Type, secret.Data = corev1.SecretTypeOpaque, map[string][]byte{seedKey: seed}
		err = s.Client.Create(ctx, secret, client.DisableReadYourWritesConsistency)
		if apierrors.IsAlreadyExists(err) {
			err = s.Live.Get(ctx, key, secret)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("reading Secret %q of %s: %w", SecretName, Namespace, err)
	}
	return secret.Data[seedKey], nil
}
