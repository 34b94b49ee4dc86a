package backend

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"goless.io/operator/api/v1beta1"
)

// Activity is the JSON response of /activity of a function and of /listening of an activator.
type Activity struct {
	// InFlight is the number of requests being served or held.
	InFlight int `json:"inFlight"`
	// IdleSeconds is the time since the last request ended. Activators omit it.
	IdleSeconds float64 `json:"idleSeconds,omitempty"`

	// The totals since the process started. Activators and functions that were built before Goless
	// had request scaling omit them.

	// UptimeSeconds is the time since the process started.
	UptimeSeconds float64 `json:"uptimeSeconds,omitempty"`
	// InFlightSeconds is the integral of the number of requests in flight over that time, without
	// requests that have timed out.
	InFlightSeconds float64 `json:"inFlightSeconds,omitempty"`
	// Served is the number of requests that have ended, without the Rejected ones, which exceeded the
	// concurrency of the function. Failed is the number of Served requests with a server error; nil in
	// functions that were built before Goless counted them.
	Served   int64  `json:"served,omitempty"`
	Failed   *int64 `json:"failed,omitempty"`
	Rejected int64  `json:"rejected,omitempty"`
}

// maxResponse is the maximum size of a response, in bytes. The code of a function is not trusted.
const maxResponse = 4096

// maxReason is the number of bytes that are read of the reason why a pod is not ready.
const maxReason = 512

// adminClient queries admin ports. It does not keep connections, because it sends few requests to
// each of many pods. It does not follow redirects: a pod could redirect it to an address that the
// pod cannot reach itself.
var adminClient = &http.Client{
	Transport:     &http.Transport{DisableKeepAlives: true, MaxResponseHeaderBytes: maxResponse},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	Timeout:       2 * time.Second,
}

// loadClient queries the same pods every few seconds, and so it keeps its connections.
var loadClient = &http.Client{
	Transport: &http.Transport{
		MaxResponseHeaderBytes: maxResponse, MaxIdleConnsPerHost: 1, MaxConnsPerHost: 2, IdleConnTimeout: 10 * time.Second,
		// Idle connections use about 32 MiB at most. The budgets of the proxy do not include them.
		MaxIdleConns: 4096, ReadBufferSize: 1 << 10, WriteBufferSize: 1 << 9,
	},
	CheckRedirect: adminClient.CheckRedirect,
	Timeout:       adminClient.Timeout,
}

// GetActivity returns the response and the status code of an admin URL. A status code other than
// 200 is not an error; the Activity is then zero.
func GetActivity(ctx context.Context, url string) (Activity, int, error) {
	return getActivity(ctx, adminClient, url)
}

func getActivity(ctx context.Context, client *http.Client, url string) (a Activity, status int, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return a, 0, err
	}
	response, err := client.Do(request)
	if err != nil {
		return a, 0, err
	}
	defer response.Body.Close() //nolint:errcheck // read-only
	body := io.LimitReader(response.Body, maxResponse)
	defer io.Copy(io.Discard, body) //nolint:errcheck // lets the client keep the connection
	if response.StatusCode != http.StatusOK {
		return a, response.StatusCode, nil
	}
	err = json.NewDecoder(body).Decode(&a)
	return a, response.StatusCode, err
}

// IdleTime returns the time for which none of the pods has served a request. It is 0 if a pod
// serves one now, or if there are no pods. It returns an error if a pod is not ready or does not
// respond.
func IdleTime(ctx context.Context, pods []Pod) (time.Duration, error) {
	var all []time.Duration
	for _, p := range pods {
		idle, err := p.idle(ctx)
		if err != nil {
			return 0, err
		}
		all = append(all, idle)
	}
	if len(all) == 0 {
		return 0, nil
	}
	return slices.Min(all), nil
}

// Activity queries the activity of a pod over a connection that is kept for the next query.
func (p Pod) Activity(ctx context.Context) (Activity, error) { return p.activity(ctx, loadClient) }

func (p Pod) activity(ctx context.Context, client *http.Client) (Activity, error) {
	a, status, err := getActivity(ctx, client, "http://"+p.Admin+"/activity")
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("/activity returned status %d", status)
	}
	if err != nil {
		return Activity{}, activityError(err)
	}
	return a, nil
}

// idle returns the time for which a pod has served no request, or 0 if it serves one now.
func (p Pod) idle(ctx context.Context) (time.Duration, error) {
	if !p.Ready || p.Admin == "" {
		return 0, fmt.Errorf("the pod at %q is not ready or is terminating", p.Address)
	}
	a, err := p.activity(ctx, adminClient)
	if err != nil || a.InFlight > 0 {
		return 0, err
	}
	return max(time.Duration(a.IdleSeconds*float64(time.Second)), 0), nil // the value comes from untrusted code
}

// Serves reports whether a pod is ready according to its own /readyz, which may be up to a second
// earlier than the Ready condition. If the pod is not ready, reason is its response, or empty if
// there was none. The pod must have an address.
func (p Pod) Serves(ctx context.Context) (serves bool, reason string) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.Admin+"/readyz", nil)
	if err != nil {
		return false, ""
	}
	response, err := adminClient.Do(request)
	if err != nil {
		return false, ""
	}
	defer response.Body.Close() //nolint:errcheck // read-only
	if response.StatusCode == http.StatusOK {
		return true, ""
	}
	text, _ := io.ReadAll(io.LimitReader(response.Body, maxReason)) // a partial reason is enough
	line, _, _ := strings.Cut(string(text), "\n")
	return false, fmt.Sprintf("/readyz returned %d %q", response.StatusCode, line)
}

// activityError wraps an error of an activity query. Its text contains no addresses, so that it is
// the same for each attempt.
func activityError(err error) error {
	cause := "a service mesh or another program may listen on this port"
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		err, cause = errors.New("no response in time"), "a NetworkPolicy may block the activator"
	} else if failed, ok := errors.AsType[*net.OpError](err); ok {
		err = failed.Err
	} else if failed, ok := errors.AsType[*url.Error](err); ok {
		err = failed.Err
	}
	return fmt.Errorf("reading the activity of a pod at port %d: %w; %s", v1beta1.AdminPort, err, cause)
}
