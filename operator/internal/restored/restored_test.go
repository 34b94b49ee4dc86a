package restored_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"goless.io/operator/internal/restored"
)

// server answers as an API server does whose objects have some version: a watch ends
// at once, and a list of limited length has the version.
type server struct {
	version string
	code    int
	asked   []string
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	what := "watch"
	if r.URL.Query().Get("limit") == "1" {
		what = "compare " + r.URL.Query().Get("fieldSelector")
	} else if r.URL.Query().Get("watch") == "" {
		what = "list"
	}
	s.asked = append(s.asked, strings.TrimSpace(what))
	w.WriteHeader(s.code)
	if what != "watch" {
		fmt.Fprintf(w, `{"kind":"PartialObjectMetadataList","metadata":{"resourceVersion":%q}}`, s.version)
	}
}

const (
	watch = "/api/v1/pods?watch=true&resourceVersion=100&timeoutSeconds=500"
	named = "/api/v1/secrets?watch=true&resourceVersion=100&timeoutSeconds=500&fieldSelector=metadata.name%3Da"
	ended = "/api/v1/pods?watch=true&resourceVersion=100&timeoutSeconds=0"
	list  = "/api/v1/pods?resourceVersion=100"
	fresh = "/api/v1/pods?watch=true&resourceVersion="
)

func TestDetector(t *testing.T) {
	ok := func(version string) server { return server{version: version, code: http.StatusOK} }
	for name, test := range map[string]struct {
		before, request string // before is answered well
		then            server // answers the request
		asked           []string
		fails, gone     bool
	}{
		"nothing was cut":     {ended, watch, ok("90"), []string{"watch"}, false, false},
		"no version is known": {watch, fresh, ok("90"), []string{"watch"}, false, false},
		"another kind":        {named, watch, ok("90"), []string{"watch"}, false, false},
		"cut":                 {watch, watch, ok("100"), []string{"compare", "watch"}, false, false},
		"cut and behind":      {watch, watch, ok("101"), []string{"compare", "watch"}, false, false},
		"restored":            {watch, watch, ok("99"), []string{"compare"}, true, true},
		"restored, listed":    {watch, list, ok("99"), []string{"compare"}, true, true},
		"restored, selected":  {named, named, ok("99"), []string{"compare metadata.name=a"}, true, true},
		"no answer":           {watch, watch, server{code: http.StatusServiceUnavailable}, []string{"compare"}, false, false},
		"no right":            {watch, watch, server{code: http.StatusForbidden}, []string{"compare", "watch"}, false, false},
		"a wrong answer":      {watch, watch, ok("none"), []string{"compare"}, true, false},
		"an empty answer":     {watch, watch, ok("0"), []string{"compare"}, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			api := &server{code: http.StatusOK, version: "100"}
			listener := httptest.NewServer(api)
			defer listener.Close()
			var gone error
			client := &http.Client{Transport: restored.New(func(err error) { gone = err }).Wrap(http.DefaultTransport)}
			if err := ask(client, listener.URL+test.before); err != nil {
				t.Fatal(err)
			}
			*api = test.then
			err := ask(client, listener.URL+test.request)
			if diff := cmp.Diff(test.asked, api.asked); diff != "" || (err != nil) != test.fails {
				t.Errorf("the server was asked otherwise, or the answer is %v:\n%s", err, diff)
			}
			if _, is := errors.AsType[*restored.Error](gone); is != test.gone || (gone != nil) != test.gone {
				t.Errorf("it says %v, want an end: %t", gone, test.gone)
			}
		})
	}
}

// After an outage one comparison is enough.
func TestDetectorRests(t *testing.T) {
	api := &server{code: http.StatusServiceUnavailable, version: "100"}
	listener := httptest.NewServer(api)
	defer listener.Close()
	client := &http.Client{Transport: restored.New(func(err error) { t.Error(err) }).Wrap(http.DefaultTransport)}
	for i, path := range []string{watch, watch, ended, ended} {
		if i == 2 {
			api.code = http.StatusOK
		}
		if err := ask(client, listener.URL+path); err != nil {
			t.Error(err)
		}
	}
	if diff := cmp.Diff([]string{"watch", "compare", "compare", "watch", "watch"}, api.asked); diff != "" {
		t.Error(diff)
	}
}

func ask(client *http.Client, url string) error {
	response, err := client.Get(url)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, response.Body)
	return errors.Join(err, response.Body.Close())
}
