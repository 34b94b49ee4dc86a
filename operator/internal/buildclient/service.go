package buildclient

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/builder/buildapi"
)

const (
	// SecretName is the name of the Secret with the seed: random bytes from which the service and
	// the operator derive their keys.
	SecretName = "goless-build"

	seedKey = "seed"
)

// URL returns the URL of the build service in a namespace, for the operator and for pods.
func URL(namespace string) string { return "https://goless-build." + namespace + ".svc:8443" }

// connectTimeout is the timeout for reading the Secret.
const connectTimeout = 10 * time.Second

// seedRetryInterval is the delay between two attempts to create the Secret.
const seedRetryInterval = 10 * time.Second

// Service connects to the build service with the keys derived from the seed. It reads the Secret
// with the seed before it sends the first order, and again when the keys of the service have
// changed.
type Service struct {
	// URL is the URL of the service.
	URL string

	// Namespace is the namespace of the Secret.
	Namespace string

	// Live reads from the API server, and Client writes to it.
	Live   client.Reader
	Client client.Client

	reading singleflight.Group

	mu   sync.Mutex
	last *connection
}

// connection is a client and its keys.
type connection struct {
	url    string
	keys   *buildapi.Keys
	client *buildapi.Client
}

// ensureSeed creates the Secret with the seed if it does not exist. It retries until ctx ends,
// unless the operator has no permission.
func (s *Service) ensureSeed(ctx context.Context) error {
	return wait.PollUntilContextCancel(ctx, seedRetryInterval, true, func(ctx context.Context) (bool, error) {
		_, err := s.connect(ctx)
		if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) || apierrors.IsInvalid(err) {
			return false, err
		}
		return err == nil, nil
	})
}

// connect returns the connection with the current keys. All callers wait for the same read of the Secret.
func (s *Service) connect(ctx context.Context) (*connection, error) {
	s.mu.Lock()
	last := s.last
	s.mu.Unlock()
	if last != nil {
		return last, nil
	}
	select {
	case read := <-s.reading.DoChan("", func() (any, error) { return s.read() }):
		if read.Err != nil {
			return nil, &readError{fmt.Sprintf("Secret %q of %s", SecretName, s.Namespace), read.Err}
		}
		return read.Val.(*connection), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// read reads the seed, and returns a connection with the keys that are derived from it.
func (s *Service) read() (*connection, error) {
	ctx, cancel := context.WithTimeoutCause(context.Background(), connectTimeout, errNotRead)
	defer cancel()
	seed, err := s.seed(ctx)
	if err != nil {
		return nil, cmp.Or(context.Cause(ctx), err)
	}
	keys, err := buildapi.NewKeys(seed)
	if err != nil {
		return nil, fmt.Errorf("%w; delete the Secret, and the operator creates another one", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = &connection{url: s.URL, keys: keys, client: buildapi.NewClient(s.URL, keys)}
	return s.last, nil
}

// checkError drops a connection if its keys may be the cause of an error.
func (s *Service) checkError(c *connection, err error) {
	refused, isStatus := errors.AsType[*buildapi.StatusError](err)
	if !errors.Is(err, buildapi.ErrSeed) && (!isStatus || refused.Code != http.StatusUnauthorized) {
		return
	}
	s.mu.Lock()
	if s.last == c {
		s.last = nil
	}
	s.mu.Unlock()
}

// seed returns the seed in the Secret, and creates the Secret if it does not exist. If another
// replica creates the Secret at the same time, seed returns the seed of that replica.
func (s *Service) seed(ctx context.Context) ([]byte, error) {
	secret := &corev1.Secret{}
	secret.Namespace, secret.Name = s.Namespace, SecretName
	key := client.ObjectKeyFromObject(secret)
	err := s.Live.Get(ctx, key, secret)
	if apierrors.IsNotFound(err) {
		seed := make([]byte, buildapi.SeedSize)
		_, _ = rand.Read(seed) // never fails
		secret.Type, secret.Data = corev1.SecretTypeOpaque, map[string][]byte{seedKey: seed}
		err = s.Client.Create(ctx, secret, client.DisableReadYourWritesConsistency)
		if apierrors.IsAlreadyExists(err) {
			err = s.Live.Get(ctx, key, secret)
		}
	}
	return secret.Data[seedKey], err
}
