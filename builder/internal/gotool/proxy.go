package gotool

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// WithoutDirect makes the default of GOPROXY one without direct, if Network has
// none: with it, whoever writes a go.mod has this process ask any host, whose
// answer may send it on to others.
func (t *Toolchain) WithoutDirect() error {
	if lookup(t.Network, "GOPROXY") != "" {
		return nil
	}
	data, err := os.ReadFile(filepath.Join(t.Root, "go.env"))
	if err != nil {
		return fmt.Errorf("reading the defaults of the toolchain: %w", err)
	}
	proxies := lookup(strings.Split(string(data), "\n"), "GOPROXY")
	for _, separator := range []string{",", "|"} {
		proxies = strings.TrimSuffix(proxies, separator+"direct")
	}
	if proxies == "" || strings.Contains(proxies, "direct") {
		proxies = "off"
	}
	t.Network = append(t.Network, "GOPROXY="+proxies)
	return nil
}
