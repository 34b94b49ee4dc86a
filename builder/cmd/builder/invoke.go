package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"goless.io/builder/internal/cloudevent"
	"goless.io/builder/internal/kubectl"
	"goless.io/builder/internal/source"
)

const invokeExample = `  # call a Function of the cluster
  builder invoke hello

  # call one of its paths, with a body
  builder invoke hello/greetings --data '{"name":"Ada"}' -H Content-Type:application/json

  # send an event, as triggers do, to the function that builder run serves
  builder invoke http://localhost:8080 --cloudevent order.json`

func newInvoke(s streams) *cobra.Command {
	i := &invoke{streams: s}
	cmd := &cobra.Command{
		Use:   "invoke TARGET",
		Short: "Send a request or a CloudEvent to a Function",
		Long: `Send a request or a CloudEvent to a Function, and print the response. TARGET is a
URL, or the name of a Function in a cluster, followed by a path and a query. The
request wakes a sleeping Function.

The FILE of --cloudevent is an event in the JSON format of CloudEvents, or only
its data; headers such as 'Ce-Type: x' set the attributes.

The exit code is 1 if the status of the response is 400 or more, and 2 if there
is no response. The command uses kubectl, with its kubeconfig and credentials:
the API server forwards the request to the Service.`,
		Example:           invokeExample,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: i.completeFunctions,
		RunE:              func(cmd *cobra.Command, args []string) error { return i.run(cmd.Context(), args[0]) },
	}
	i.addFlags(cmd)
	cmd.Flags().StringVarP(&i.method, "method", "X", "", "`method` of the request (default GET, or POST with a body)")
	cmd.Flags().StringArrayVarP(&i.headers, "header", "H", nil, "`header` of the request, such as 'Accept: text/html'; may be repeated")
	cmd.Flags().StringVarP(&i.data, "data", "d", "", "`body` of the request, or @ followed by a file; @- for standard input")
	cmd.Flags().StringVar(&i.event, "cloudevent", "", "send the CloudEvent, or its data, in `FILE`; - for standard input")
	cmd.MarkFlagsMutuallyExclusive("data", "cloudevent")
	return cmd
}

type invoke struct {
	streams
	clusterFlags
	method, data, event string
	headers             []string
}

// message is a request without its URL.
type message struct {
	method string
	header http.Header
	body   []byte
}

func (i *invoke) run(ctx context.Context, target string) error {
	m, err := i.message()
	if err != nil {
		return err
	}
	began := time.Now()
	var response *http.Response
	if strings.Contains(target, "://") {
		response, err = m.send(ctx, http.DefaultTransport, target)
	} else {
		var stop func()
		response, stop, err = i.inCluster(ctx, target, m)
		defer stop()
	}
	if err != nil {
		return err
	}
	defer response.Body.Close() //nolint:errcheck // it was read
	i.notef("%s %s after %s", response.Proto, response.Status, time.Since(began).Round(time.Millisecond))
	if _, err := io.Copy(i.out, response.Body); err != nil {
		return fmt.Errorf("reading the response: %w", err)
	}
	if response.StatusCode >= http.StatusBadRequest {
		return exitSource
	}
	return nil
}

// message returns the request that the flags describe.
func (i *invoke) message() (m message, err error) {
	m = message{method: http.MethodGet, header: http.Header{}}
	switch {
	case i.event != "":
		text, err := i.read(i.event)
		if err != nil {
			return m, err
		}
		if m.header, m.body, err = cloudevent.Read(text); err != nil {
			return m, fmt.Errorf("%s: %w", i.event, err)
		}
		m.method = http.MethodPost
	case i.data != "":
		m.method, m.body = http.MethodPost, []byte(i.data)
		if file, ok := strings.CutPrefix(i.data, "@"); ok {
			m.body, err = i.read(file)
		}
	}
	given := http.Header{}
	for _, header := range i.headers {
		name, value, ok := strings.Cut(header, ":")
		if !ok {
			return m, fmt.Errorf("invalid header %q, want 'Name: value'", header)
		}
		given.Add(strings.TrimSpace(name), strings.TrimSpace(value))
	}
	maps.Copy(m.header, given) // overrides headers of the event
	if i.method != "" {
		m.method = i.method
	}
	return m, err
}

func (i *invoke) read(path string) ([]byte, error) {
	if path == source.Stdin {
		return io.ReadAll(i.in)
	}
	return os.ReadFile(path)
}

// send sends a request without following redirects.
func (m message) send(ctx context.Context, transport http.RoundTripper, url string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, m.method, url, bytes.NewReader(m.body))
	if err != nil {
		return nil, err
	}
	request.Header = m.header
	if host := m.header.Get("Host"); host != "" {
		request.Host = host
	}
	return transport.RoundTrip(request)
}

// inCluster sends a request to a Function through the API server. The caller must call stop after
// reading the response; stop is not nil, even after an error.
func (i *invoke) inCluster(ctx context.Context, target string, m message) (_ *http.Response, stop func(), err error) {
	stop = func() {}
	name, rest := target, ""
	if end := strings.IndexAny(target, "/?"); end >= 0 {
		name, rest = target[:end], target[end:]
	}
	client := i.kubectl(i.err)
	function, err := client.Get(ctx, name)
	switch {
	case err != nil:
		return nil, stop, err
	case m.checkProxied(rest) != nil:
		return nil, stop, fmt.Errorf("%w; send the request to a pod: kubectl port-forward --namespace %s service/%s %d, and then: builder invoke 'http://localhost:%[4]d%s'",
			m.checkProxied(rest), function.Metadata.Namespace, function.Status.Service, function.Spec.ServerPort, rest)
	case !function.Is(kubectl.Available):
		return nil, stop, fmt.Errorf("%s is not serving: %s", name, function.Condition(kubectl.Ready))
	case function.Condition(kubectl.Available).Reason == kubectl.Asleep:
		i.notef("%s is asleep; waking it", name)
		if err := client.Wake(ctx, function); err != nil {
			return nil, stop, err
		}
	}
	transport, stop, err := client.Proxy(ctx, function)
	if err != nil {
		return nil, stop, err
	}
	response, err := m.send(ctx, transport, "http://"+name+rest)
	return response, stop, err
}

// checkProxied returns an error if the API server would change a request to this path and query.
func (m message) checkProxied(rest string) error {
	if m.header.Get("Authorization") != "" {
		return errors.New("cannot send the header Authorization through the API server")
	}
	path, _, _ := strings.Cut(rest, "?")
	return kubectl.CheckPath(path)
}
