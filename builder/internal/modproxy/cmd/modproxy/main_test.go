package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRun(t *testing.T) {
	file := filepath.Join(t.TempDir(), "m.txtar")
	if err := os.WriteFile(file, []byte("-- go.mod --\nmodule example.com/m\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	reader, writer := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- run(ctx, []string{"-user", "me:secret", "example.com/m@v1.0.0=" + file}, writer)
		writer.Close() //nolint:errcheck // it never fails
	}()
	lines := bufio.NewReader(reader)
	address, err := lines.ReadString('\n')
	if err != nil {
		t.Fatal(errors.Join(err, <-ended))
	}
	go io.Copy(io.Discard, lines) //nolint:errcheck // the log of requests
	response, err := http.Get("http://me:secret@" + strings.TrimSpace(address) + "/example.com/m/@v/list")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close() //nolint:errcheck // it was only read
	if list, err := io.ReadAll(response.Body); err != nil || string(list) != "v1.0.0" {
		t.Errorf("the versions are %q, %v", list, err)
	}
	stop()
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		t.Errorf("run: %v", err)
	}
}
