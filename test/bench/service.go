package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"goless.io/builder/buildapi"
)

// service is a separate process of the build service, which caches the dependencies of a
// namespace for later builds.
type service struct {
	*builds

	client *buildapi.Client
	proxy  string
	orders int
	stop   func()
}

// newService starts a build service, whose modules come from the directory of a file: proxy.
func newService(ctx context.Context, b *builds) (*service, error) {
	seed := make([]byte, buildapi.SeedSize)
	_, _ = rand.Read(seed) // it never fails
	file := filepath.Join(b.scratch, "seed")
	if err := os.WriteFile(file, seed, 0o600); err != nil {
		return nil, err
	}
	keys, err := buildapi.NewKeys(seed)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, b.command, "serve", "--listen", "localhost:0", "--seed-file", file, "--store", filepath.Join(b.scratch, "store"))
	cmd.Env = b.session.environ()
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	log, err := cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	proxy := httptest.NewServer(http.FileServer(http.Dir(b.modules)))
	s := &service{builds: b, proxy: proxy.URL, stop: func() {
		proxy.Close()
		_ = cmd.Cancel() // it may have ended
		_ = cmd.Wait()
	}}
	lines := bufio.NewScanner(log)
	address := addressIn(lines)
	go func() {
		for lines.Scan() { // or the service would wait for a reader
		}
	}()
	if address == "" {
		s.stop()
		return nil, errors.New("the build service does not say where it serves")
	}
	s.client = buildapi.NewClient("https://"+address, keys)
	return s, nil
}

// addressIn returns the address of a build service from its log, or "" if the log ends.
func addressIn(log *bufio.Scanner) string {
	for log.Scan() {
		var line struct {
			Address string `json:"address"`
		}
		if json.Unmarshal(log.Bytes(), &line) == nil && line.Address != "" {
			return line.Address
		}
	}
	return ""
}

// first builds a function with five modules for a namespace without earlier builds.
func (s *service) first(ctx context.Context) (float64, error) {
	return s.order(ctx, fmt.Sprintf("first-%d", s.orders))
}

// again builds it for a namespace that has built one with the same modules.
func (s *service) again(ctx context.Context) (float64, error) { return s.order(ctx, "again") }

// order returns the seconds from the order of a function with five modules and a changed
// handler to the end of its build.
func (s *service) order(ctx context.Context, namespace string) (float64, error) {
	s.orders++
	archive, err := s.archive(fmt.Sprintf("\n// Order %d, %s.\n", s.orders, time.Now()))
	if err != nil {
		return 0, err
	}
	started := time.Now()
	event, err := s.client.Build(ctx, buildapi.Order{
		Namespace: namespace, Source: string(archive), Environment: map[string]string{"GOPROXY": s.proxy, "GOSUMDB": "off"},
	}, nil)
	took := time.Since(started).Seconds()
	if err != nil {
		return 0, err
	}
	var report struct {
		Reason string `json:"reason"`
	}
	if err := json.Unmarshal(event.Report, &report); err != nil {
		return 0, fmt.Errorf("reading how a build ended: %w", err)
	}
	if report.Reason != "Built" {
		return 0, fmt.Errorf("a build ended with %s", event.Report)
	}
	return took, nil
}
