// Package plane runs a control plane for fault injection: etcd, kube-apiserver and
// kube-controller-manager as processes that can be killed, stopped and restarted, with the
// objects of deploy/ and an audit log. The operator under test is another process.
//
// The tests inject the faults. There are no nodes: package kubelet makes pods ready.
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
	// Etcd, APIServer and Manager are its programs. Etcd keeps its data when it is restarted.
	Etcd, APIServer, Manager *Process

	// Config is the configuration of a user with all permissions.
	Config *rest.Config

	dir    string
	binary string // of all programs of Kubernetes
	repo   string
	server string // URL of the API server
	etcd   string // URL of etcd
	tokens map[string]string
}

// startPatience limits how long a program may take to become ready on a busy machine.
const startPatience = 3 * time.Minute

// Start starts a control plane. assets is a directory with kube-apiserver, which make assets
// creates in .cache/assets; repo is the root of the repository.
func Start(ctx context.Context, assets, repo string) (_ *Plane, err error) {
	binary, err := filepath.EvalSymlinks(filepath.Join(assets, "kube-apiserver"))
	if err != nil {
		return nil, fmt.Errorf("looking for kube-apiserver, which make assets builds: %w", err)
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
	// Started last, so that its garbage collector knows Functions.
	return p, p.Manager.Start()
}

// Stop stops all programs and removes their files.
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

// AwaitEtcd waits until etcd is ready. An API server that is started earlier gives up after a
// while.
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

// poll repeats a check until it succeeds, the process has exited, or it times out.
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

// logTail returns the end of a program's log.
func (p *Plane) logTail(program string) error {
	text, err := os.ReadFile(p.path(program + ".log"))
	if err != nil {
		return err
	}
	return fmt.Errorf("the log of %s ends with:\n%s", program, text[max(0, len(text)-4096):])
}

func (p *Plane) path(name string) string { return filepath.Join(p.dir, name) }

func newToken() string { return rand.Text() }
