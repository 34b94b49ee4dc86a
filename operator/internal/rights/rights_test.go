package rights_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"goless.io/operator/internal/rights"
)

// Answers of kube-apiserver 1.36, and what is to be told of them.
const (
	json   = `{"kind":"Status","message":"pods is forbidden: User \"system:serviceaccount:a:b\" cannot watch resource \"pods\" in API group \"\" at the cluster scope","reason":"Forbidden"}`
	binary = "k8s\x00\n\x0c\n\x02v1\x12\x06Status\x12\xd8\x01\n\x06\n\x00\x12\x00\x1a\x00\x12\x07Failure\x1aspods is forbidden: User \"system:serviceaccount:a:b\" cannot watch resource \"pods\" in API group \"\" at the cluster scope\"\tForbidden"
	told   = `User "system:serviceaccount:a:b" cannot watch resource "pods" in API group "" at the cluster scope`

	lease = `{"message":"leases.coordination.k8s.io \"b\" is forbidden: User \"system:serviceaccount:a:b\" cannot update resource \"leases\" in API group \"coordination.k8s.io\" in the namespace \"a\""}`
	unled = `User "system:serviceaccount:a:b" cannot update resource "leases" in API group "coordination.k8s.io" in the namespace "a"`

	read   = `{"message":"pods \"x\" is forbidden: User \"system:serviceaccount:a:b\" cannot get resource \"pods\" in API group \"\" at the cluster scope"}`
	policy = `{"message":"pods is forbidden: somebody's webhook does not like it"}`
)

func TestRefusal(t *testing.T) {
	for name, test := range map[string]struct{ answer, want string }{
		"JSON":            {json, told},
		"protobuf":        {binary, told},
		"another verb":    {read, ""},
		"another refusal": {policy, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testRefusal(t, test.answer, test.want) })
		})
	}
}

func testRefusal(t *testing.T, answer, want string) {
	s := &server{t: t, rights: rights.New(), answer: answer}
	s.code = http.StatusForbidden
	s.ask("/api/v1/pods?watch=true")
	time.Sleep(6 * time.Second)
	s.tells("any", "") // it may have just started
	s.ask("/api/v1/pods?watch=true")
	s.tells("any", want)

	s.code = http.StatusOK
	s.ask("/api/v1/pods")
	s.ask("/api/v1/services?watch=true")
	s.tells("any", want) // neither is a watch of these
	s.ask("/api/v1/pods?watch=true")
	s.tells("any", "")

	s.code = http.StatusForbidden
	s.method = http.MethodPatch // somebody's webhook says what it may not see itself
	s.ask("/api/v1/namespaces/one/services/b")
	time.Sleep(6 * time.Second)
	s.ask("/api/v1/namespaces/one/services/b")
	s.tells("one", "")

	s.method = http.MethodGet
	s.ask("/api/v1/namespaces/one/pods")
	time.Sleep(6 * time.Second)
	s.ask("/api/v1/namespaces/one/pods")
	s.tells("one", want)
	s.tells("", want)
	s.tells("on", "")
	s.tells("two", "")
}

// What is refused of the lease is told as long as that goes on.
func TestUnled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{t: t, rights: rights.New(), code: http.StatusForbidden, answer: lease}
		for range 3 {
			if got := s.rights.Unled(); got != "" {
				t.Errorf("told %q too early", got)
			}
			s.ask("/apis/coordination.k8s.io/v1/namespaces/a/leases/b")
			time.Sleep(3 * time.Second)
		}
		if got := s.rights.Unled(); got != unled {
			t.Errorf("told %q, want %q", got, unled)
		}
		s.tells("", "") // everything can be seen
		time.Sleep(8 * time.Second)
		if got := s.rights.Unled(); got != "" {
			t.Errorf("told %q of what is not refused any more", got)
		}
		s.ask("/apis/coordination.k8s.io/v1/namespaces/a/leases/b")
		if got := s.rights.Unled(); got != "" {
			t.Errorf("told %q at once", got)
		}
	})
}

// server answers always the same.
type server struct {
	t      *testing.T
	rights *rights.Rights
	code   int
	answer string
	method string // GET when empty
}

func (s *server) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: s.code, Body: io.NopCloser(strings.NewReader(s.answer))}, nil
}

// ask fails the test if the answer is not what the server said.
func (s *server) ask(path string) {
	s.t.Helper()
	request, err := http.NewRequest(s.method, "http://server"+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	response, err := s.rights.Wrap(s).RoundTrip(request)
	if err != nil {
		s.t.Fatal(err)
	}
	defer response.Body.Close() //nolint:errcheck // there is no connection
	if body, err := io.ReadAll(response.Body); string(body) != s.answer {
		s.t.Errorf("the answer became %q (%v)", body, err)
	}
}

func (s *server) tells(namespace, want string) {
	s.t.Helper()
	if got := s.rights.Refusal(namespace); got != want {
		s.t.Errorf("told %q, want %q", got, want)
	}
}
