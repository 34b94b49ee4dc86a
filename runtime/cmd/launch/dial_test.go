package main

import (
	"context"
	"errors"
	"net"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestClusterDomain(t *testing.T) {
	for config, want := range map[string]string{
		"search a.svc.cluster.local svc.cluster.local cluster.local\nnameserver 10.0.0.10\noptions ndots:5\n": "cluster.local",
		"nameserver 10.0.0.10\nsearch a.svc.k8s.example. svc.k8s.example. k8s.example.":                       "k8s.example",
		"search svc.svc.cluster.local svc.cluster.local cluster.local\n":                                      "cluster.local",
		"search a.svc.cluster.local\nsearch example.com\n":                                                    "",
		"search svc.example.com example.com\n":                                                                "",
		"search example.com\nnameserver 192.0.2.1\n":                                                          "", // dnsPolicy: Default
		"# search svc.comment\n":                                                                              "",
		"":                                                                                                    "",
	} {
		if got := clusterDomain(config); got != want {
			t.Errorf("%q: got %q, want %q", config, got, want)
		}
	}
}

// The name of a Service is looked up in the domain of the cluster, and elsewhere only if that domain
// does not have it. The DNS of a cluster is a part of the end-to-end tests.
func TestDialContext(t *testing.T) {
	const absolute, relative = "build.system.svc.cluster.test.:8443", "build.system.svc:8443"
	unknown, silent := &net.OpError{Op: "dial", Err: &net.DNSError{IsNotFound: true}}, &net.OpError{Op: "dial", Err: &net.DNSError{IsTimeout: true}}
	refused := errors.New("connection refused")
	for name, test := range map[string]struct {
		domain, address string
		first           error // the result of the first attempt
		want            []string
	}{
		"Found":     {"cluster.test", relative, nil, []string{absolute}},
		"NotFound":  {"cluster.test", relative, unknown, []string{absolute, relative}},
		"NoDNS":     {"cluster.test", relative, silent, []string{absolute}},
		"Refused":   {"cluster.test", relative, refused, []string{absolute}},
		"NoCluster": {"", relative, nil, []string{relative}},
		"Address":   {"cluster.test", "10.0.0.1:8443", nil, []string{"10.0.0.1:8443"}},
		"OtherName": {"cluster.test", "build.example.com:8443", nil, []string{"build.example.com:8443"}},
	} {
		t.Run(name, func(t *testing.T) {
			var dialed []string
			d := &dialer{domain: test.domain, dial: func(_ context.Context, _, address string) (net.Conn, error) {
				dialed = append(dialed, address)
				if len(dialed) == 1 {
					return nil, test.first
				}
				return nil, nil
			}}
			_, err := d.DialContext(t.Context(), "tcp", test.address)
			if diff := cmp.Diff(test.want, dialed); diff != "" {
				t.Errorf("dialed addresses (-want +got):\n%s", diff)
			}
			if len(test.want) == 1 && !errors.Is(err, test.first) {
				t.Errorf("got %v, want %v", err, test.first)
			}
		})
	}
}
