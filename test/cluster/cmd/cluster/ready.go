package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"goless.io/test/cluster/internal/node"
)

// probe is a condition that holds in a ready cluster.
type probe struct {
	name string
	ask  func(context.Context) error
}

// startLimit is sufficient for a busy machine with slow disks.
const startLimit = 3 * time.Minute

// waitReady waits until all probes succeed, and reports each success.
func (c cluster) waitReady(ctx context.Context, nodes []node.Node, ended <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	for _, p := range c.probes(nodes) {
		if err := c.await(ctx, p, ended); err != nil {
			return fmt.Errorf("%s: %w\nsee the logs in %s, and try again after cluster down", p.name, err, c.checkout.Logs())
		}
	}
	return nil
}

// await repeats a probe until it succeeds.
func (c cluster) await(ctx context.Context, p probe, ended <-chan struct{}) error {
	const pause, patience = 100 * time.Millisecond, 10 * time.Second
	var last atomic.Value
	stop := c.say.Every(patience, func() string { return fmt.Sprintf("not yet: %s: %v", p.name, last.Load()) })
	defer stop()
	for {
		asking, cancel := context.WithTimeout(ctx, 5*time.Second)
		err := p.ask(asking)
		cancel()
		last.Store(fmt.Sprint(err))
		if err == nil {
			c.say.Say("%s", p.name)
			return nil
		}
		select {
		case <-ended:
			log, _ := os.ReadFile(c.supervisorLog())
			return fmt.Errorf("the supervisor ended: %s", log)
		case <-ctx.Done():
			return fmt.Errorf("gave up: %w", err)
		case <-time.After(pause):
		}
	}
}

// probes returns the probes in the order in which they usually succeed.
func (c cluster) probes(nodes []node.Node) []probe {
	n := nodes[0]
	probes := []probe{
		{"the registry has the base images", func(ctx context.Context) error {
			// The last image to be pushed. Every pod needs it.
			return node.Get(ctx, http.DefaultClient, "http://"+n.Registry()+"/v2/base/pause/manifests/latest", nil)
		}},
		{"the API server answers", func(ctx context.Context) error { return askAPI(ctx, n, "/readyz", nil) }},
		{"the default service account exists", func(ctx context.Context) error {
			return askAPI(ctx, n, "/api/v1/namespaces/default/serviceaccounts/default", nil)
		}},
		{"the name server answers", func(ctx context.Context) error { return resolve(ctx, n) }},
	}
	for _, other := range nodes {
		name := other.Name()
		probes = append(probes, probe{"node " + name + " is ready", func(ctx context.Context) error { return nodeReady(ctx, n, name) }})
	}
	return probes
}

// resolve queries the cluster's name server for a name that always exists.
func resolve(ctx context.Context, n node.Node) error {
	inside, err := cellOf(n).OpenNet()
	if err != nil {
		return err
	}
	defer inside.Close() //nolint:errcheck // it was only entered
	resolver := net.Resolver{PreferGo: true, Dial: func(_ context.Context, network, _ string) (net.Conn, error) {
		return inside.Dial(network, net.JoinHostPort(node.IP, "53"))
	}}
	_, err = resolver.LookupHost(ctx, "kubernetes.default.svc.cluster.local.")
	return err
}
