package pods

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"
)

// Activity is what the admin ports of functions and of activators answer.
type Activity struct {
	// InFlight is how many requests are served or held now.
	InFlight int `json:"inFlight"`
	// IdleSeconds is for how long there has been none. Activators leave it out.
	IdleSeconds float64 `json:"idleSeconds,omitempty"`
}

// maxAnswer bounds what is read of an answer, in bytes. Functions are strangers.
const maxAnswer = 4096

// asking has a connection of its own for each question: there are few, to many pods. It follows
// no redirects, because a pod could lead it to where the pod itself may not connect.
var asking = &http.Client{
	Transport:     &http.Transport{DisableKeepAlives: true},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	Timeout:       2 * time.Second,
}

// Ask returns what a URL answers, and the status. A status other than 200 is no error.
func Ask(ctx context.Context, url string) (a Activity, status int, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return a, 0, err
	}
	response, err := asking.Do(request)
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

// Idle returns for how long none of the pods has served a request. A request in flight makes
// it 0. It is an error if one cannot tell: it is starting, or ending, or too busy to answer.
func Idle(ctx context.Context, pods []Pod) (time.Duration, error) {
	least := time.Duration(-1)
	for _, p := range pods {
		if !p.Ready || p.Admin == "" {
			return 0, fmt.Errorf("the pod at %q is not ready, or is ending", p.Address)
		}
		a, status, err := Ask(ctx, "http://"+p.Admin+"/activity")
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("http://%s/activity answers %d", p.Admin, status)
		}
		if err != nil {
			return 0, fmt.Errorf("asking a pod how busy it is: %w", err)
		}
		idle := time.Duration(a.IdleSeconds * float64(time.Second))
		if a.InFlight > 0 {
			idle = 0
		}
		if least < 0 || idle < least {
			least = idle
		}
	}
	return max(least, 0), nil
}
