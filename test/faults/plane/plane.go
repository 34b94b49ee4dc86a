// Package plane owns a control plane for tests that hurt it: a real etcd, a real
// kube-apiserver and a real kube-controller-manager as processes that can be
// killed, held and started again, with Goless's objects of deploy/ installed and
// an audit log of every request. The operator under test is one more process.
//
// It refuses to know which faults there are. There is no node: pods become ready
// by somebody else's hand, see package kubelet.
package plane

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Plane is a running control plane.
type Plane struct {
	// Etcd, APIServer and Manager are its programs. Etcd keeps its data over a
	// restart.
	Etcd, APIServer, Manager *Process

	// Config is that of somebody who may do everything.
	Config *rest.Config

	dir    string
	binary string // of all programs of Kubernetes
	repo   string
	server string // URL of the API server
	etcd   string // URL of etcd
	tokens map[string]string
}

// startPatience is how long a program may take to become ready on a machine that
// has much else to do.
const startPatience = 3 * time.Minute

// Start starts a control plane. assets is a directory with kube-apiserver, as
// make unit leaves it in .cache/assets; repo is the root of the repository.
func Start(ctx context.Context, assets, repo string) (_ *Plane, err error) {
	binary, err := filepath.EvalSymlinks(filepath.Join(assets, "kube-apiserver"))
	if err != nil {
		return nil, fmt.Errorf("looking for kube-apiserver, which make unit builds: %w", err)
	}
	dir, err := os.MkdirTemp("", "goless-plane-")
	if err != nil {
		return nil, err
	}
	p := &Plane{dir: dir, binary: binary, repo: repo, tokens: map[string]string{}}
	defer func() {
		if err != nil {
			p.Stop()
		}
	}()
	if err := p.configure(); err != nil {
		return nil, err
	}
	if err := p.Etcd.Start(); err != nil {
		return nil, err
	}
	if err := p.AwaitEtcd(ctx); err != nil {
		return nil, errors.Join(err, p.logTail("etcd"))
	}
	if err := p.APIServer.Start(); err != nil {
		return nil, err
	}
	if err := p.Await(ctx); err != nil {
		return nil, errors.Join(err, p.logTail("kube-apiserver"))
	}
	if err := p.Install(ctx); err != nil {
		return nil, fmt.Errorf("installing deploy/: %w", err)
	}
	// Late, so that its garbage collector knows what a Function is.
	return p, p.Manager.Start()
}

// Stop ends all of it and leaves nothing behind.
func (p *Plane) Stop() {
	for _, process := range []*Process{p.Manager, p.APIServer, p.Etcd} {
		if process != nil {
			process.Kill()
		}
	}
	os.RemoveAll(p.dir) //nolint:errcheck // temporary files
}

// Await waits until the API server is ready.
func (p *Plane) Await(ctx context.Context) error { return p.await(ctx, p.APIServer, p.server) }

func (p *Plane) await(ctx context.Context, process *Process, server string) error {
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	config := rest.CopyConfig(p.Config)
	config.Host = server
	config.Timeout = 2 * time.Second
	set, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	return poll(ctx, process, func() error {
		_, err := set.RESTClient().Get().AbsPath("/readyz").DoRaw(ctx)
		return err
	})
}

// AwaitEtcd waits until etcd is ready. An API server that is started before gives
// up after a while.
func (p *Plane) AwaitEtcd(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	return poll(ctx, p.Etcd, func() error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.etcd+"/readyz", nil)
		if err != nil {
			return err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return err
		}
		response.Body.Close() //nolint:errcheck // nothing is read
		if response.StatusCode != http.StatusOK {
			return errors.New(response.Status)
		}
		return nil
	})
}

// poll asks again and again, until a process is ready, has ended, or has taken
// too long.
func poll(ctx context.Context, process *Process, ready func() error) error {
	for {
		err := ready()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s was not ready within %s: %w", process.Name, startPatience, err)
		case <-process.Ended():
			return errors.New(process.Name + " ended")
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// logTail is the end of what a program had to say.
func (p *Plane) logTail(program string) error {
	text, err := os.ReadFile(p.path(program + ".log"))
	if err != nil {
		return err
	}
	return fmt.Errorf("the log of %s ends with:\n%s", program, text[max(0, len(text)-4096):])
}

func (p *Plane) path(name string) string { return filepath.Join(p.dir, name) }

func newToken() string { return rand.Text() }
