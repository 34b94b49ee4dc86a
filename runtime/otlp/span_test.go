package otlp

import (
	"net/http"
	"testing"
)

func TestServerAddress(t *testing.T) {
	for host, want := range map[string]struct {
		address string
		port    int
	}{
		"example.com":        {"example.com", 80},
		"example.com:9000":   {"example.com", 9000},
		"[2001:db8::1]":      {"2001:db8::1", 80},
		"[2001:db8::1]:9000": {"2001:db8::1", 9000},
		"example.com:any":    {"example.com", 0},
		"":                   {"", 80},
	} {
		address, port := serverAddress(&http.Request{Host: host})
		if address != want.address || port != want.port {
			t.Errorf("%q is %s and %d, want %s and %d", host, address, port, want.address, want.port)
		}
	}
}
