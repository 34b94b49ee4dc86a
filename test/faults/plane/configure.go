package plane

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"net"
	"os"
	"strings"
	"syscall"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Users that the API server authenticates with a token. Members of system:masters have all
// permissions.
const (
	admin   = "admin"
	manager = "system:kube-controller-manager"

	// Operator is the operator's account, to which deploy/ grants permissions.
	Operator = "system:serviceaccount:goless-system:goless-operator"
)

// policy makes the audit log contain every request of the operator, every write of the
// activator, and writes of all others that concern Functions.
const policy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  users: ["` + Operator + `"]
- level: Metadata
  users: ["` + Activator + `"]
  verbs: [create, update, patch, delete, deletecollection]
- level: Metadata
  verbs: [create, update, patch, delete, deletecollection]
  resources:
  - group: goless.io
  - group: apps
    resources: [deployments]
  - group: ""
    resources: [services, configmaps]
- level: None
`

// configure writes the files and the command lines of the programs.
func (p *Plane) configure() error {
	var etcd, peer, secure int
	if err := freePorts(&etcd, &peer, &secure); err != nil {
		return err
	}
	p.etcd = fmt.Sprintf("http://127.0.0.1:%d", etcd)
	p.server = fmt.Sprintf("https://127.0.0.1:%d", secure)
	var lines strings.Builder
	for user, group := range map[string]string{admin: "system:masters", manager: "system:masters", Operator: "system:serviceaccounts", Activator: "system:serviceaccounts"} {
		p.tokens[user] = newToken()
		fmt.Fprintf(&lines, "%s,%q,%q,%q\n", p.tokens[user], user, user, group)
	}
	key, err := newKey()
	if err != nil {
		return err
	}
	for name, text := range map[string]string{"tokens.csv": lines.String(), "audit.yaml": policy, "accounts.key": key} {
		if err := os.WriteFile(p.path(name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	managerConfig, err := p.kubeconfig(manager, p.server, p.tokens[manager])
	if err != nil {
		return err
	}
	p.Config = &rest.Config{
		Host: p.server, BearerToken: p.tokens[admin], TLSClientConfig: rest.TLSClientConfig{Insecure: true},
		QPS: -1, // the API server limits requests itself
	}
	p.Etcd = p.program("etcd",
		"--data-dir="+p.path("etcd"), "--unsafe-no-fsync", "--log-level=warn", "--quota-backend-bytes=8589934592",
		"--listen-client-urls="+p.etcd, "--advertise-client-urls="+p.etcd,
		fmt.Sprintf("--listen-peer-urls=http://127.0.0.1:%d", peer), fmt.Sprintf("--initial-advertise-peer-urls=http://127.0.0.1:%d", peer),
		fmt.Sprintf("--initial-cluster=default=http://127.0.0.1:%d", peer))
	p.APIServer = p.apiServer("kube-apiserver", p.etcd, secure)
	p.Manager = p.program("kube-controller-manager",
		"--kubeconfig="+managerConfig, "--leader-elect=false", "--kube-api-qps=1000", "--kube-api-burst=2000", "--secure-port=0",
		"--concurrent-deployment-syncs=10", "--concurrent-replicaset-syncs=10",
		"--controllers=deployment-controller,replicaset-controller,garbage-collector-controller,namespace-controller")
	return nil
}

// apiServer returns an API server on a port, which uses etcd at a URL.
func (p *Plane) apiServer(name, etcd string, port int) *Process {
	server := p.program("kube-apiserver",
		"--etcd-servers="+etcd, fmt.Sprintf("--secure-port=%d", port),
		"--bind-address=127.0.0.1", "--service-cluster-ip-range=10.32.0.0/16",
		// Nothing uses the Service kubernetes, whose endpoint must not be on the loopback interface.
		"--endpoint-reconciler-type=none",
		"--cert-dir="+p.path(name+"-certs"), "--token-auth-file="+p.path("tokens.csv"), "--authorization-mode=RBAC",
		// The controllers that create service accounts and their tokens do not run.
		"--disable-admission-plugins=ServiceAccount",
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file="+p.path("accounts.key"), "--service-account-signing-key-file="+p.path("accounts.key"),
		"--audit-policy-file="+p.path("audit.yaml"), "--audit-log-path="+p.path("audit.log"), "--audit-log-maxsize=4096")
	server.Name, server.Log = name, p.path(name+".log")
	return server
}

func (p *Plane) program(name string, flags ...string) *Process {
	return &Process{Name: name, Argv: append([]string{p.binary, name}, flags...), Log: p.path(name + ".log")}
}

// kubeconfig writes a file with which a user connects to a server. Without a token, a proxy
// must add it.
func (p *Plane) kubeconfig(user, server, token string) (string, error) {
	config := clientcmdapi.NewConfig()
	config.Clusters["it"] = &clientcmdapi.Cluster{Server: server, InsecureSkipTLSVerify: strings.HasPrefix(server, "https:")}
	config.AuthInfos["it"] = &clientcmdapi.AuthInfo{Token: token}
	config.Contexts["it"] = &clientcmdapi.Context{Cluster: "it", AuthInfo: "it"}
	config.CurrentContext = "it"
	file, err := os.CreateTemp(p.dir, strings.ReplaceAll(user, ":", "-")+"-*.kubeconfig")
	if err != nil {
		return "", err
	}
	defer file.Close() //nolint:errcheck // it is written by name
	return file.Name(), clientcmd.WriteToFile(*config, file.Name())
}

// freePorts returns ports on loopback that are not in use. The kernel does not use them for
// outgoing connections.
func freePorts(ports ...*int) error {
	const first, last = 10000, 32767 // below what Linux takes
	for _, port := range ports {
		for {
			*port = first + mathrand.IntN(last-first)
			listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", *port))
			if errors.Is(err, syscall.EADDRINUSE) {
				continue
			}
			if err != nil {
				return err
			}
			defer listener.Close() //nolint:errcheck // nothing was ever accepted
			break
		}
	}
	return nil
}

// newKey returns a key for tokens of service accounts.
func newKey() (string, error) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return "", err
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})), nil
}
