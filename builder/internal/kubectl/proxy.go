package kubectl

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// Proxy returns a transport that sends requests to the Service of a Function until stop is called.
// kubectl forwards them to the API server, which forwards them to a pod of the Service. Other users
// of this machine cannot send requests through it.
func (k *Client) Proxy(ctx context.Context, f *Function) (_ http.RoundTripper, stop func(), err error) {
	dir, err := os.MkdirTemp("", "goless-proxy-")
	if err != nil {
		return nil, func() {}, fmt.Errorf("creating a directory for a socket: %w", err)
	}
	socket := filepath.Join(dir, "kubectl")
	below := fmt.Sprintf("/api/v1/namespaces/%s/services/http:%s:%d/proxy", f.Metadata.Namespace, f.Status.Service, f.Spec.ServerPort)
	end, err := k.serve(ctx, "--unix-socket="+socket, "--accept-paths=^"+regexp.QuoteMeta(below)+"/", "--append-server-path")
	stop = func() {
		end()
		_ = os.RemoveAll(dir) // in the temporary directory
	}
	if err != nil {
		return nil, stop, err
	}
	return &proxy{below: below, transport: http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}}, stop, nil
}

// CheckPath returns an error if a Function would not receive a path unchanged: kubectl and the API
// server decode %2F, and redirect paths that contain empty segments, . or .. to cleaned paths.
func CheckPath(path string) error {
	segments := strings.Split(strings.TrimPrefix(path, "/"), "/")
	for i, segment := range segments {
		decoded, err := url.PathUnescape(segment)
		switch {
		case err != nil:
			return err
		case strings.Contains(decoded, "/"):
			return fmt.Errorf("the API server decodes the %s of the path %s", "%2F", path)
		case decoded == "" && i < len(segments)-1, decoded == ".", decoded == "..":
			return fmt.Errorf("kubectl and the API server do not forward //, /./ and /../, which the path %s contains", path)
		}
	}
	return nil
}

// serve starts kubectl proxy and returns when it serves. end stops it and waits until it has ended;
// otherwise it would outlive this process. end is valid even after an error.
func (k *Client) serve(ctx context.Context, flags ...string) (end func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	cmd, err := k.command(ctx, append([]string{"proxy"}, flags...))
	if err != nil {
		return cancel, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return cancel, err
	}
	if err := cmd.Start(); err != nil {
		return cancel, err
	}
	if !bufio.NewScanner(out).Scan() { // prints a line when it serves
		return cancel, k.wait(ctx, cmd)
	}
	return func() {
		cancel()
		_ = cmd.Wait() // killed by cancel
	}, nil
}

// A proxy sends requests through the API server.
type proxy struct {
	below     string // path of the Service in the API server
	transport http.Transport
}

// A started pod becomes ready within seconds, and the Service then routes to it.
const (
	startPatience = 2 * time.Minute
	startInterval = 100 * time.Millisecond
)

// RoundTrip repeats a request while the Service has no ready pod, because in that case no pod has
// received it. The error contains the reason of the API server.
func (p *proxy) RoundTrip(r *http.Request) (*http.Response, error) {
	deadline := time.After(startPatience)
	for {
		response, err := p.send(r)
		if !errors.Is(err, errNoEndpoints) {
			return response, err
		}
		select {
		case <-time.After(startInterval):
		case <-deadline:
			return nil, err
		case <-r.Context().Done():
			return nil, context.Cause(r.Context())
		}
	}
}

func (p *proxy) send(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Host = "localhost"
	r.URL.Host = r.Host
	r.URL.Path, r.URL.RawPath = p.below+"/"+strings.TrimPrefix(r.URL.Path, "/"), "" // the API server encodes it again
	if r.GetBody != nil {
		body, err := r.GetBody()
		if err != nil {
			return nil, err
		}
		r.Body = body
	}
	response, err := p.transport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if err := refusal(response); err != nil {
		return nil, errors.Join(err, response.Body.Close())
	}
	return response, nil
}

// errNoEndpoints means that a Service has no ready pod.
var errNoEndpoints = errors.New("the Service has no ready endpoint")

// maxRefusal is how many bytes of a response are read to determine whether the API server itself
// sent it.
const maxRefusal = 64 << 10

// refusal returns an error if the API server itself sent the response. It preserves the body of
// other responses.
func refusal(response *http.Response) error {
	if response.StatusCode < http.StatusBadRequest {
		return nil
	}
	begin, err := io.ReadAll(io.LimitReader(response.Body, maxRefusal))
	if err != nil {
		return fmt.Errorf("reading the response: %w", err)
	}
	var status struct{ APIVersion, Kind, Message string }
	_ = json.Unmarshal(begin, &status) // other responses may not be JSON
	switch {
	case status.APIVersion != "v1" || status.Kind != "Status":
		response.Body = struct {
			io.Reader
			io.Closer
		}{io.MultiReader(bytes.NewReader(begin), response.Body), response.Body}
		return nil
	case strings.HasPrefix(status.Message, "no endpoints available"):
		return errNoEndpoints
	}
	return fmt.Errorf("the API server cannot reach the function: %s", status.Message)
}
