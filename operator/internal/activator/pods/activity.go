package pods

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

// Activity is what the admin ports of functions and of activators answer.
type Activity struct {
	// InFlight is how many requests are served or held now.
	InFlight int `json:"inFlight"`
	// IdleSeconds is for how long there has been none. Activators leave it out.
	IdleSeconds float64 `json:"idleSeconds,omitempty"`
}

// maxAnswer is how much of an answer is read, in bytes. The code of a function is not trusted.
const maxAnswer = 4096

// maxReason is how much is read of the reason for which a pod does not serve, in bytes.
const maxReason = 512

// adminClient asks admin ports. It keeps no connections, because it has few questions for each of
// many pods. It follows no redirects, because a pod could lead it to where the pod itself may not
// connect.
var adminClient = &http.Client{
	Transport:     &http.Transport{DisableKeepAlives: true, MaxResponseHeaderBytes: maxAnswer},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	Timeout:       2 * time.Second,
}

// Ask returns what the URL of an admin port answers, and the status. A status other than 200 is no
// error.
func Ask(ctx context.Context, url string) (a Activity, status int, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return a, 0, err
	}
	response, err := adminClient.Do(request)
	if err != nil {
		return a, 0, err
	}
	defer response.Body.Close() //nolint:errcheck // it was read
	if response.StatusCode != http.StatusOK {
		return a, response.StatusCode, nil
	}
	err = json.NewDecoder(io.LimitReader(response.Body, maxAnswer)).Decode(&a)
	return a, response.StatusCode, err
}

// Idle returns for how long none of the pods has served a request, and 0 if one serves one now, or if
// there are no pods. It is an error if a pod cannot tell: it is starting, or ending, or too busy to
// answer.
func Idle(ctx context.Context, pods []Pod) (time.Duration, error) {
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

// idle returns for how long a pod has served no request, and 0 if it serves one now.
func (p Pod) idle(ctx context.Context) (time.Duration, error) {
	if !p.Ready || p.Admin == "" {
		return 0, fmt.Errorf("the pod at %q is not ready, or is ending", p.Address)
	}
	a, status, err := Ask(ctx, "http://"+p.Admin+"/activity")
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("/activity answers with status %d", status)
	}
	if err != nil {
		return 0, unreachable(err)
	}
	if a.InFlight > 0 {
		return 0, nil
	}
	return max(time.Duration(a.IdleSeconds*float64(time.Second)), 0), nil // an author's program may say anything
}

// Serves reports whether a pod says that it serves. Kubernetes may learn that a second later. The pod must have an
// address. If it does not serve, it may say why.
func (p Pod) Serves(ctx context.Context) (serves bool, why string) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.Admin+"/readyz", nil)
	if err != nil {
		return false, ""
	}
	response, err := adminClient.Do(request)
	if err != nil {
		return false, ""
	}
	defer response.Body.Close() //nolint:errcheck // it was read
	if response.StatusCode == http.StatusOK {
		return true, ""
	}
	text, _ := io.ReadAll(io.LimitReader(response.Body, maxReason)) // what has come is enough
	line, _, _ := strings.Cut(string(text), "\n")
	return false, fmt.Sprintf("/readyz answers %d %q", response.StatusCode, line)
}

// unreachable returns the error about a pod that does not say how busy it is. Its text is the same each
// time: it has no addresses.
func unreachable(err error) error {
	cause := "a service mesh or another program may answer there"
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		err, cause = errors.New("no answer in time"), "a NetworkPolicy may keep the activator out"
	} else if failed, ok := errors.AsType[*net.OpError](err); ok {
		err = failed.Err
	} else if failed, ok := errors.AsType[*url.Error](err); ok {
		err = failed.Err
	}
	return fmt.Errorf("asking a pod at port %d how busy it is: %w; %s", v1beta1.AdminPort, err, cause)
}
