package modules

import (
	"cmp"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"goless.io/builder/internal/program"
	"goless.io/builder/internal/sandbox"
	"goless.io/builder/internal/toolchain"
)

// certificates are the paths where crypto/x509 looks for CA certificates on common systems.
var certificates = []string{
	"/etc/ssl/certs", "/etc/ssl/cert.pem", "/etc/ssl/ca-bundle.pem",
	"/etc/pki/tls/certs", "/etc/pki/tls/cacert.pem", "/etc/pki/ca-trust/extracted/pem",
	"/usr/share/ca-certificates", "/usr/local/share/ca-certificates",
}

// fetchPolicy returns the sandbox policy for a go command that fetches the modules of a program. Such
// a command has network access and reads untrusted data. It cannot read other files in the
// container, such as the keys of the build service or the binaries of other functions, and can
// connect only to the ports of module proxies. It can write the program's go.mod and go.sum, and
// the module cache.
func fetchPolicy(t *toolchain.Toolchain, p *program.Program, work string, memory int64) sandbox.Policy {
	policy := sandbox.Policy{
		Read:   []string{t.Root, t.Modules, p.Dir},
		Write:  []string{work},
		Ports:  ports(t),
		Open:   !t.Sealed,
		Memory: uint64(max(memory, 0)),

		// The go command renames a module when it is complete.
		Removes: true,

		WriteFiles: []string{filepath.Join(p.Dir, goMod), filepath.Join(p.Dir, goSum)},
	}
	if cache := t.ModuleCache(p); cache != t.Modules {
		policy.Write = append(policy.Write, cache)
	}
	may := append([]string{
		"/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf", "/etc/services", t.Cache,
		t.Setting("NETRC"), filepath.Join(t.Setting("HOME"), ".netrc"), t.Setting("SSL_CERT_FILE"),
	}, certificates...)
	may = append(may, filepath.SplitList(t.Setting("SSL_CERT_DIR"))...)
	for _, proxy := range proxies(t) {
		if proxy.Scheme == "file" {
			may = append(may, proxy.Path)
		}
	}
	for _, path := range may {
		info, err := os.Stat(path)
		switch {
		case err != nil: // Landlock rejects rules for missing files
		case info.IsDir():
			policy.Read = append(policy.Read, path)
		case info.Mode().IsRegular():
			policy.Files = append(policy.Files, path)
		}
	}
	return policy
}

// ports returns the TCP ports to which the go command has to connect.
func ports(t *toolchain.Toolchain) []uint16 {
	ports := []uint16{443} // default port of the proxy and the checksum database
	for _, proxy := range proxies(t) {
		port := map[string]string{"http": "80", "https": "443", "socks5": "1080", "socks5h": "1080"}[proxy.Scheme]
		if n, err := strconv.ParseUint(cmp.Or(proxy.Port(), port), 10, 16); err == nil {
			ports = append(ports, uint16(n))
		}
	}
	return ports
}

// proxies returns the servers in Network: module proxies, the checksum database, and HTTP proxies.
func proxies(t *toolchain.Toolchain) (all []*url.URL) {
	var values []string
	for _, name := range []string{"GOPROXY", "GOSUMDB"} {
		values = append(values, strings.FieldsFunc(t.Setting(name), func(r rune) bool { return strings.ContainsRune(",| ", r) })...)
	}
	for _, name := range []string{"HTTPS_PROXY", "HTTP_PROXY", "https_proxy", "http_proxy"} {
		value := t.Setting(name)
		if value != "" && !strings.Contains(value, "://") {
			value = "http://" + value
		}
		values = append(values, value)
	}
	for _, value := range values {
		if u, err := url.Parse(value); err == nil && u.Scheme != "" {
			all = append(all, u)
		}
	}
	return all
}
