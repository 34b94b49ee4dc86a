package e2e

import (
	"encoding/json"
	"net/http"
	neturl "net/url"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// meddling sends arbitrary requests, and does not verify certificates.
const meddling = `package handlers

import (
	"crypto/tls"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"time"
)

var client = &http.Client{
	Timeout:   30 * time.Second,
	Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}},
}

func Handler(w http.ResponseWriter, r *http.Request) {
	var answer struct {
		Status int
		Body   string
		Signed bool
		Error  string
	}
	defer func() { json.NewEncoder(w).Encode(answer) }()
	query := r.URL.Query()
	request, err := http.NewRequest(query.Get("method"), query.Get("url"), r.Body)
	if err != nil {
		answer.Error = err.Error()
		return
	}
	for _, header := range query["header"] {
		name, value, _ := strings.Cut(header, ": ")
		request.Header.Set(name, value)
	}
	response, err := client.Do(request)
	if err != nil {
		answer.Error = err.Error()
		return
	}
	defer response.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(response.Body, 300))
	answer.Status, answer.Body = response.StatusCode, string(body)
	answer.Signed = response.Header.Get("Goless-Signature") != ""
}
`

// A function can connect to the build service, because its pods fetch the binary there. It gets
// only its own binary, even if it knows the key of another one.
func TestBuildServiceRefuses(t *testing.T) {
	t.Parallel()
	ns, others := newNamespace(t), newNamespace(t)
	victim := others.ready(others.apply(shared("victim", meddling)))
	fn := ns.ready(ns.apply(shared("meddling", meddling)))
	ns.reach(fn)
	own, foreign := variables(ns.pod(fn).Spec.Containers[0]), variables(others.pod(victim).Spec.Containers[0])
	if own["FUNCTION_BINARY"] == foreign["FUNCTION_BINARY"] {
		t.Error("two namespaces have the same binary for the same source")
	}
	if own["FUNCTION_BINARY_PUBLIC_KEY"] != foreign["FUNCTION_BINARY_PUBLIC_KEY"] {
		t.Errorf("the public keys differ: %v, %v", own, foreign)
	}

	service := own["FUNCTION_BUILD_SERVICE"]
	mine, theirs := service+"/v1/binaries/"+own["FUNCTION_BINARY"], service+"/v1/binaries/"+foreign["FUNCTION_BINARY"]
	capability := "Authorization: Bearer " + own["FUNCTION_BINARY_CAPABILITY"]
	order := `{"namespace":"` + others.name + `","source":"package p"}`
	for name, c := range map[string]struct {
		method, url string
		headers     []string
		body        string
		status      int
	}{
		"its own":                    {"GET", mine, []string{capability, "Prefer: wait=30"}, "", http.StatusOK},
		"its own, without token":     {"GET", mine, nil, "", http.StatusForbidden},
		"its own, for anybody":       {"GET", mine, []string{"Authorization: Bearer "}, "", http.StatusForbidden},
		"that of another":            {"GET", theirs, []string{capability}, "", http.StatusForbidden},
		"that of another, as a peer": {"GET", theirs, []string{capability, "Goless-Peer: 1"}, "", http.StatusForbidden},
		"that of another, by a path": {"GET", mine + "/..%2f" + foreign["FUNCTION_BINARY"], []string{capability}, "", http.StatusNotFound},
		"an unknown one":             {"GET", mine[:len(mine)-4] + "0000", []string{capability}, "", http.StatusForbidden},
		"to write its own":           {"PUT", mine, []string{capability}, "poison", http.StatusMethodNotAllowed},
		"to delete its own":          {"DELETE", mine, []string{capability}, "", http.StatusMethodNotAllowed},
		"to see all":                 {"GET", service + "/v1/binaries/", []string{capability}, "", http.StatusNotFound},
		"an order":                   {"POST", service + "/v1/builds", nil, order, http.StatusUnauthorized},
		"an order by capability":     {"POST", service + "/v1/builds", []string{capability}, order, http.StatusUnauthorized},
		"metrics":                    {"GET", service + "/metrics", []string{capability}, "", http.StatusNotFound},
	} {
		query := neturl.Values{"method": {c.method}, "url": {c.url}, "header": c.headers}
		var got struct {
			Status      int
			Body, Error string
			Signed      bool
		}
		reply := ns.call(http.MethodPost, url(fn)+"/?"+query.Encode(), c.body)
		if err := json.Unmarshal([]byte(reply.Body), &got); err != nil {
			t.Fatalf("%s: %v: %q", name, err, reply.Body)
		}
		if got.Status != c.status || got.Signed != (c.status == http.StatusOK) {
			t.Errorf("%s: got %d %.100q %s, want %d", name, got.Status, got.Body, got.Error, c.status)
		}
		if strings.Contains(got.Body, foreign["FUNCTION_BINARY_CAPABILITY"]) {
			t.Errorf("%s: the response contains a capability", name)
		}
	}
}

// variables returns the environment of a container, as far as it is in its spec.
func variables(c corev1.Container) map[string]string {
	all := map[string]string{}
	for _, v := range c.Env {
		all[v.Name] = v.Value
	}
	return all
}
