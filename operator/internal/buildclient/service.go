package buildclient

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
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/builder/remote"
)

const (
	// SecretName is the Secret that makes the service and the operator trust each
	// other.
	SecretName = "goless-build"

	seedKey = "seed"
)

// URL is where the build service of a namespace answers, the operator and pods.
func URL(namespace string) string { return "https://goless-build." + namespace + ".svc:8443" }

// connectTimeout bounds how long the seed may take to be read: all orders wait for it.
const connectTimeout = 10 * time.Second

// preparePause is the pause between two tries to make the seed.
const preparePause = 10 * time.Second

// Service is the build service. The seed is read when the first order is sent, and again when
// the service has another one, because somebody may have replaced it.
type Service struct {
	// URL is where it answers.
	URL string

	// Namespace is that of the Secret.
	Namespace string

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

// prepare creates the seed if there is none. It gives up if that is not allowed.
func (s *Service) prepare(ctx context.Context) error {
	return wait.PollUntilContextCancel(ctx, preparePause, true, func(ctx context.Context) (bool, error) {
		_, err := s.connect(ctx)
		if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) || apierrors.IsInvalid(err) {
			return false, err
		}
		return err == nil, nil
	})
}

func (s *Service) connect(ctx context.Context) (*connection, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last != nil {
		return s.last, nil
	}
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	seed, err := s.seed(ctx)
	if err != nil {
		return nil, err
	}
	keys, err := remote.NewKeys(seed)
	if err != nil {
		return nil, fmt.Errorf("reading Secret %q of %s, delete it to have it made anew: %w", SecretName, s.Namespace, err)
	}
	s.last = &connection{url: s.URL, keys: keys, client: remote.NewClient(s.URL, keys)}
	return s.last, nil
}

// failed drops a connection if its keys may be the reason for an error.
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

// seed reads the Secret, and creates it if there is none. If another replica creates it at the
// same time, that one counts.
func (s *Service) seed(ctx context.Context) ([]byte, error) {
	secret := &corev1.Secret{}
	secret.Namespace, secret.Name = s.Namespace, SecretName
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
		return nil, fmt.Errorf("reading Secret %q of %s: %w", SecretName, s.Namespace, err)
	}
	return secret.Data[seedKey], nil
}
