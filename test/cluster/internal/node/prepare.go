package node

import (
	"bytes"
	"embed"
	"encoding/base64"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"text/template"

	"goless.io/test/cluster/internal/pki"
)

//go:embed config
var config embed.FS

var templates = template.Must(template.ParseFS(config, "config/*"))

// Modes of public files, and of those that contain a private key.
const public, secret fs.FileMode = 0o644, 0o600

// nodeFiles maps paths relative to Etc of each node to configuration files, controlFiles those of
// the node with the control plane.
var (
	nodeFiles = map[string]string{
		"containerd.toml":   "containerd.toml",
		"kubelet.yaml":      "kubelet.yaml",
		"cni/pods.conflist": "pods.conflist",
	}
	controlFiles = map[string]string{
		"audit.yaml":  "audit.yaml",
		"Corefile":    "Corefile",
		"resolv.conf": "resolv.conf",
	}
)

// identity is a certificate with its kubeconfig. Each program has its own, so that the audit
// log identifies it.
type identity struct {
	name        string
	user, group string
	hosts       []string
}

// controlPlane contains the identities of the programs that only the first node runs.
var controlPlane = []identity{
	{name: Admin, user: "admin", group: "system:masters"},
	{name: "kube-apiserver", user: "kube-apiserver", group: "system:masters", hosts: []string{
		"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local",
		"localhost", loopback, IP, apiService,
	}},
	{name: "kube-controller-manager", user: "system:kube-controller-manager"},
	{name: "kube-scheduler", user: "system:kube-scheduler"},
	{name: "coredns", user: "coredns", group: "system:masters"},
	// Signs tokens. Its certificate is not used.
	{name: "service-account", user: "service-account"},
}

// frontProxy is the user with which the API server authenticates to extension API servers.
const frontProxy = "front-proxy"

// Admin is the user with all permissions.
const Admin = "admin"

// Prepare writes all files that the programs of the nodes read: new certificates, and the
// configuration files. The first node runs the control plane.
func Prepare(nodes []Node) error {
	authority, err := pki.New("goless-cluster")
	if err != nil {
		return err
	}
	if err := nodes[0].prepare(authority, controlPlane, controlFiles); err != nil {
		return err
	}
	for _, n := range nodes {
		ids := []identity{
			{name: "kubelet", user: "system:node:" + n.Name(), group: "system:nodes", hosts: []string{n.Name(), n.Addr()}},
			{name: "kube-proxy", user: "system:kube-proxy"},
		}
		if err := n.prepare(authority, ids, nodeFiles); err != nil {
			return err
		}
	}
	return nil
}

func (n Node) prepare(authority *pki.Authority, ids []identity, files map[string]string) error {
	if err := write(n.etc("ca.crt"), public, authority.PEM); err != nil {
		return err
	}
	for _, id := range ids {
		if err := n.identify(authority, id); err != nil {
			return fmt.Errorf("certificate of %s: %w", id.name, err)
		}
	}
	if err := n.prepareFrontProxy(); err != nil {
		return fmt.Errorf("certificate of %s: %w", frontProxy, err)
	}
	for place, source := range files {
		if err := render(n.etc(place), source, public, n.values()); err != nil {
			return err
		}
	}
	return nil
}

// prepareFrontProxy writes the client certificate with which the API server forwards requests to
// extension API servers, such as metrics-server. They trust the headers of these requests to name
// the user, so the certificate has a CA of its own.
func (n Node) prepareFrontProxy() error {
	authority, err := pki.New("goless-cluster-" + frontProxy)
	if err != nil {
		return err
	}
	if err := write(n.etc(frontProxy+"-ca.crt"), public, authority.PEM); err != nil {
		return err
	}
	_, err = n.issue(authority, identity{name: frontProxy, user: frontProxy})
	return err
}

// issue writes a certificate and its key.
func (n Node) issue(authority *pki.Authority, id identity) (pki.Pair, error) {
	pair, err := authority.Issue(id.user, id.group, id.hosts...)
	if err != nil {
		return pki.Pair{}, err
	}
	if err := write(n.etc(id.name+".crt"), public, pair.Cert); err != nil {
		return pki.Pair{}, err
	}
	return pair, write(n.etc(id.name+".key"), secret, pair.Key)
}

func (n Node) identify(authority *pki.Authority, id identity) error {
	pair, err := n.issue(authority, id)
	if err != nil {
		return err
	}
	return render(n.Kubeconfig(id.name), "kubeconfig.yaml", secret, map[string]string{
		"Server": n.serverForNode(),
		"User":   id.name,
		"CA":     base64.StdEncoding.EncodeToString(authority.PEM),
		"Cert":   base64.StdEncoding.EncodeToString(pair.Cert),
		"Key":    base64.StdEncoding.EncodeToString(pair.Key),
	})
}

func render(path, source string, mode fs.FileMode, data any) error {
	var text bytes.Buffer
	if err := templates.ExecuteTemplate(&text, source, data); err != nil {
		return err
	}
	return write(path, mode, text.Bytes())
}

func write(path string, mode fs.FileMode, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, data, mode)
}
