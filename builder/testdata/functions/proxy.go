package proxy

import (
	"bytes"
	"context"
	"encoding/xml"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"sync"
	"time"
)

type cached struct {
	until  time.Time
	status int
	header http.Header
	body   []byte
}

type cache struct {
	sync.Mutex
	entries map[string]*cached
}

func (c *cache) load(key string) *cached {
	c.Lock()
	defer c.Unlock()
	entry := c.entries[key]
	if entry == nil || time.Now().After(entry.until) {
		delete(c.entries, key)
		return nil
	}
	return entry
}

func (c *cache) save(key string, entry *cached) {
	c.Lock()
	defer c.Unlock()
	if c.entries == nil {
		c.entries = make(map[string]*cached)
	}
	c.entries[key] = entry
}

type recorder struct {
	http.ResponseWriter
	status int
	body   bytes.Buffer
}

func (r *recorder) WriteHeader(status int) {
	r.status = status
	r.ResponseWriter.WriteHeader(status)
}

func (r *recorder) Write(p []byte) (int, error) {
	r.body.Write(p)
	return r.ResponseWriter.Write(p)
}

var (
	responses cache
	dialer    = &net.Dialer{Timeout: 2 * time.Second}
	upstream  = sync.OnceValues(func() (*httputil.ReverseProxy, error) {
		target, err := url.Parse(os.Getenv("UPSTREAM"))
		if err != nil {
			return nil, err
		}
		return &httputil.ReverseProxy{
			Rewrite: func(r *httputil.ProxyRequest) {
				r.SetURL(target)
				r.SetXForwarded()
			},
			Transport: &http.Transport{
				DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
					return dialer.DialContext(ctx, network, addr)
				},
			},
		}, nil
	})
)

func Handler(w http.ResponseWriter, r *http.Request) {
	key := r.Method + " " + r.URL.String()
	if entry := responses.load(key); entry != nil {
		w.WriteHeader(entry.status)
		_, _ = io.Copy(w, bytes.NewReader(entry.body))
		return
	}
	proxy, err := upstream()
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		_ = xml.NewEncoder(w).Encode(struct {
			XMLName xml.Name `xml:"error"`
			Text    string   `xml:",chardata"`
		}{Text: err.Error()})
		return
	}
	record := &recorder{ResponseWriter: w, status: http.StatusOK}
	proxy.ServeHTTP(record, r)
	if record.status == http.StatusOK {
		responses.save(key, &cached{time.Now().Add(time.Minute), record.status, w.Header(), record.body.Bytes()})
	}
}
