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

// TLSConfig is how the administrator talks to the API server.
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

// insideClient is an HTTP client for addresses of the cell.
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

// answers makes a probe that is content with status 200.
func answers(client *http.Client, url string) func(context.Context) error {
	return func(ctx context.Context) error { return Get(ctx, client, url, nil) }
}

// Get fails with any status but 200. It decodes the answer, JSON, into answer
// unless that is nil.
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

// containerdListens is a probe from within the supervisor's mounts.
func containerdListens(context.Context) error {
	_, err := os.Stat("/run/containerd/containerd.sock")
	return err
}
