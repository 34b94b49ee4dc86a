package node

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"

	"goless.io/test/cluster/internal/cell"
)

// TLSConfig returns the TLS configuration of the administrator for the API server.
func (n Node) TLSConfig() (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(n.etc(Admin+".crt"), n.etc(Admin+".key"))
	if err != nil {
		return nil, err
	}
	authority, err := os.ReadFile(n.etc("ca.crt"))
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	return &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: roots}, nil
}

// insideClient returns an HTTP client for addresses in the cell.
func (n Node) insideClient(inside *cell.Net) (*http.Client, error) {
	config, err := n.TLSConfig()
	if err != nil {
		return nil, err
	}
	return &http.Client{Transport: &http.Transport{
		DialContext: func(_ context.Context, network, addr string) (net.Conn, error) {
			return inside.Dial(network, addr)
		},
		TLSClientConfig:   config,
		DisableKeepAlives: true,
	}}, nil
}

// answers returns a probe that succeeds if url responds with 200.
func answers(client *http.Client, url string) func(context.Context) error {
	return func(ctx context.Context) error { return Get(ctx, client, url, nil) }
}

// Get sends a GET request and fails unless the status is 200. It decodes the JSON response to
// answer, unless that is nil.
func Get(ctx context.Context, client *http.Client, url string, answer any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close() //nolint:errcheck // it was only read
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s", url, response.Status)
	}
	if answer == nil {
		return nil
	}
	return json.NewDecoder(response.Body).Decode(answer)
}

// containerdListens is a probe that runs in the mount namespace of the supervisor.
func containerdListens(context.Context) error {
	_, err := os.Stat("/run/containerd/containerd.sock")
	return err
}
