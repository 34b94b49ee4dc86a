package main

import (
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestInvokeHeaders checks that a header that is set twice is sent twice.
func TestInvokeHeaders(t *testing.T) {
	i := &invoke{headers: []string{"X-A: 1", "x-a:2", "Content-Type: text/csv"}, data: "a,b"}
	m, err := i.message()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(http.Header{"X-A": {"1", "2"}, "Content-Type": {"text/csv"}}, m.header); diff != "" {
		t.Errorf("headers: -want +got\n%s", diff)
	}
}
