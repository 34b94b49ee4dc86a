package main

import (
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"time"
)

// A dialer connects to the build service.
type dialer struct {
	domain string // domain of the cluster, such as cluster.local; empty if it is unknown
	dial   func(ctx context.Context, network, address string) (net.Conn, error)
}

func newDialer() *dialer {
	config, _ := os.ReadFile("/etc/resolv.conf") // without it, the domain is unknown
	usual := &net.Dialer{
		Timeout: 3 * time.Second,
		// Detects a lost node, which does not close its connections.
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second, Interval: 2 * time.Second, Count: 3},
	}
	return &dialer{domain: clusterDomain(string(config)), dial: usual.DialContext}
}

// DialContext connects to an address. The resolver of a pod looks up the name of a Service in several
// domains, one after the other, and the domain of the cluster is the last one. DialContext begins
// with it.
func (d *dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err == nil && d.domain != "" && strings.HasSuffix(host, ".svc") {
		conn, err := d.dial(ctx, network, net.JoinHostPort(host+"."+d.domain+".", port))
		if failed, ok := errors.AsType[*net.DNSError](err); !ok || !failed.IsNotFound {
			return conn, err
		}
	}
	return d.dial(ctx, network, address)
}

// clusterDomain returns the domain of the cluster if the first search domain in the text of a
// resolv.conf is NAMESPACE.svc.DOMAIN, as in pods with the DNS of the cluster, and "" otherwise.
func clusterDomain(config string) (domain string) {
	for line := range strings.Lines(config) {
		fields := strings.Fields(line)
		if len(fields) < 2 || fields[0] != "search" {
			continue
		}
		_, service, _ := strings.Cut(fields[1], ".")
		domain, _ = strings.CutPrefix(service, "svc.")
		if domain == service {
			domain = ""
		}
	}
	return strings.TrimSuffix(domain, ".") // of the last line, as in the resolver
}
