package cluster

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

// Proxy returns what sends requests to the Service of a Function, until stop is called. kubectl
// passes them on to the API server, and that to a pod of the Service. Nobody else of this
// machine can send there.
func (k *Kubectl) Proxy(ctx context.Context, f *Function) (_ http.RoundTripper, stop func(), err error) {
	dir, err := os.MkdirTemp("", "goless-proxy-")
	if err != nil {
		return nil, func() {}, fmt.Errorf("making a directory for a socket: %w", err)
	}
	socket := filepath.Join(dir, "kubectl")
	below := fmt.Sprintf("/api/v1/namespaces/%s/services/http:%s:%d/proxy", f.Metadata.Namespace, f.Status.Service, f.Spec.ServerPort)
	end, err := k.serve(ctx, "--unix-socket="+socket, "--accept-paths=^"+regexp.QuoteMeta(below)+"/", "--append-server-path")
	stop = func() {
		end()
		_ = os.RemoveAll(dir) // it is below the temporary directory
	}
	if err != nil {
		return nil, stop, err
	}
	return &proxy{below: below, transport: http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}}, stop, nil
}

// CheckPath returns an error if a path is not one that a Function receives as it is written: kubectl
// and the API server decode %2F and redirect to paths without empty segments, . and .. in them.
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
			return fmt.Errorf("kubectl and the API server do not pass on //, /./ and /../, which the path %s contains", path)
		}
	}
	return nil
}

// serve starts kubectl proxy, and returns when it serves. end ends it, and returns when it has
// ended: it would outlive this process otherwise. There is an end after an error too.
func (k *Kubectl) serve(ctx context.Context, flags ...string) (end func(), err error) {
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
	if !bufio.NewScanner(out).Scan() { // it prints a line when it serves
		return cancel, k.wait(ctx, cmd)
	}
	return func() {
		cancel()
		_ = cmd.Wait() // it was killed
	}, nil
}

// A proxy sends requests by way of the API server.
type proxy struct {
	below     string // the path of the Service there
	transport http.Transport
}

// A pod that is started is ready within seconds, and then the Service leads to it.
const (
	startPatience = 2 * time.Minute
	startInterval = 100 * time.Millisecond
)

// RoundTrip sends a request again as long as there is no pod for it, which nobody has seen
// then. The error says what hinders the API server.
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
	r.URL.Path, r.URL.RawPath = p.below+"/"+strings.TrimPrefix(r.URL.Path, "/"), "" // the API server writes it anew
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

// errNoEndpoints says that a Service leads to no pod that is ready.
var errNoEndpoints = errors.New("the Service leads to no pod that is ready")

// maxRefusal is how much of an answer is read to see whether it is one of the API server, in
// bytes.
const maxRefusal = 64 << 10

// refusal returns an error if a response is one of the API server itself. Of others it leaves
// the body as it was.
func refusal(response *http.Response) error {
	if response.StatusCode < http.StatusBadRequest {
		return nil
	}
	begin, err := io.ReadAll(io.LimitReader(response.Body, maxRefusal))
	if err != nil {
		return fmt.Errorf("reading the answer: %w", err)
	}
	var status struct{ APIVersion, Kind, Message string }
	_ = json.Unmarshal(begin, &status) // other answers need not be JSON
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
	return fmt.Errorf("the API server does not reach the function: %s", status.Message)
}
