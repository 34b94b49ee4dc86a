package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// A rule is the destination of requests for a host and a path.
type rule struct {
	host     string // a wildcard if it begins with *., and any host if it is empty
	path     string
	exact    bool          // the path only, and no paths below it
	timeout  time.Duration // 0 for none
	backends []backend
}

// A backend is the address of a Service, and its share of the requests. The address is empty if
// the Service does not exist.
type backend struct {
	address string
	weight  int32
}

// rules are sorted: the first match is used.
type rules []rule

// sort puts exact hosts before wildcards, and wildcards before all hosts. Longer hosts and
// paths come first.
func (all rules) sort() {
	breadth := func(r rule) int {
		switch {
		case r.host == "":
			return 2
		case strings.HasPrefix(r.host, "*"):
			return 1
		}
		return 0
	}
	exact := func(r rule) int {
		if r.exact {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(all, func(a, b rule) int {
		return cmp.Or(
			cmp.Compare(breadth(a), breadth(b)), cmp.Compare(len(b.host), len(a.host)),
			cmp.Compare(exact(a), exact(b)), cmp.Compare(len(b.path), len(a.path)),
		)
	})
}

func (all rules) find(host, path string) (rule, bool) {
	i := slices.IndexFunc(all, func(r rule) bool { return r.fits(host, path) })
	if i < 0 {
		return rule{}, false
	}
	return all[i], true
}

func (r rule) fits(host, path string) bool {
	below, wildcard := strings.CutPrefix(r.host, "*")
	if r.host != "" && r.host != host && (!wildcard || !strings.HasSuffix(host, below)) {
		return false
	}
	return path == r.path || !r.exact && strings.HasPrefix(path, strings.TrimSuffix(r.path, "/")+"/")
}

// choose returns a random backend for a request, according to the shares.
func (r rule) choose() (backend, bool) {
	sum := int32(0)
	for _, b := range r.backends {
		sum += b.weight
	}
	if sum == 0 {
		return backend{}, false
	}
	at := rand.Int32N(sum)
	for _, b := range r.backends {
		if at -= b.weight; at < 0 {
			return b, b.address != ""
		}
	}
	return backend{}, false
}

// proxy sends requests to the backends of the rules.
type proxy struct{ rules atomic.Pointer[rules] }

var transport = func() *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.Proxy, t.MaxIdleConns, t.MaxIdleConnsPerHost = nil, 0, 256
	return t
}()

func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	host, _, err := net.SplitHostPort(r.Host)
	if err != nil {
		host = r.Host
	}
	var all rules
	if known := p.rules.Load(); known != nil {
		all = *known
	}
	rule, ok := all.find(host, r.URL.Path)
	if !ok {
		http.Error(w, "no route for "+host+r.URL.Path, http.StatusNotFound)
		return
	}
	to, ok := rule.choose()
	if !ok {
		http.Error(w, "no backend", http.StatusInternalServerError)
		return
	}
	if rule.timeout > 0 {
		ctx, cancel := context.WithTimeout(r.Context(), rule.timeout)
		defer cancel()
		r = r.WithContext(ctx)
	}
	(&httputil.ReverseProxy{
		Transport: transport,
		Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(&url.URL{Scheme: "http", Host: to.address})
			p.SetXForwarded()
			p.Out.Host = p.In.Host
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			code := http.StatusBadGateway
			if errors.Is(err, context.DeadlineExceeded) {
				code = http.StatusGatewayTimeout
			}
			http.Error(w, fmt.Sprint("asking the backend: ", err), code)
		},
	}).ServeHTTP(w, r)
}
