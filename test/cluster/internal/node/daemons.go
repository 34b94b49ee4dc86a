package node

import (
	"fmt"
	"strings"

	"goless.io/test/cluster/internal/cell"
	"goless.io/test/cluster/internal/supervise"
)

// Daemons returns the programs of the first node, which include the control plane, with their
// dependencies. Prepare must be called before.
func (n Node) Daemons(inside *cell.Net) ([]supervise.Daemon, error) {
	client, err := n.insideClient(inside)
	if err != nil {
		return nil, err
	}
	etcd := answers(client, "http://127.0.0.1:2379/health")
	apiserver := answers(client, n.APIServer()+"/readyz")
	return n.withEnvironment([]supervise.Daemon{
		{Name: "etcd", Argv: n.etcd(), Ready: etcd},
		{Name: "kube-apiserver", Argv: n.apiserver(), Needs: []string{"etcd"}, Ready: apiserver},
		{Name: "kube-controller-manager", Argv: n.manager(), Needs: []string{"kube-apiserver"}},
		{Name: "kube-scheduler", Argv: n.scheduler(), Needs: []string{"kube-apiserver"}},
		n.containerd(),
		{Name: "kubelet", Argv: n.kubelet(), Needs: []string{"kube-apiserver", "containerd"}},
		{Name: "kube-proxy", Argv: n.proxy(), Needs: []string{"kube-apiserver"}},
		{Name: "coredns", Argv: []string{n.bin("coredns"), "-conf", n.etc("Corefile")}, Needs: []string{"kube-apiserver"}},
	}), nil
}

// WorkerDaemons returns the programs of a node after the first one. The API server must be ready.
func (n Node) WorkerDaemons() []supervise.Daemon {
	return n.withEnvironment([]supervise.Daemon{
		n.containerd(),
		{Name: "kubelet", Argv: n.kubelet(), Needs: []string{"containerd"}},
		{Name: "kube-proxy", Argv: n.proxy()},
	})
}

func (n Node) withEnvironment(daemons []supervise.Daemon) []supervise.Daemon {
	for i := range daemons {
		daemons[i].Env = n.environment()
	}
	return daemons
}

func (n Node) containerd() supervise.Daemon {
	return supervise.Daemon{
		Name: "containerd", Argv: []string{n.bin("containerd"), "--config", n.etc("containerd.toml")}, Ready: containerdListens,
	}
}

// environment sets PATH for containerd, which looks up its shim, and for the programs that call
// nft and other tools.
func (n Node) environment() []string {
	return []string{"HOME=/root", "PATH=" + n.Checkout.Bin() + ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
}

func (n Node) etcd() []string {
	return []string{
		n.bin(n.Kubernetes), "etcd",
		"--data-dir=/var/lib/etcd", "--unsafe-no-fsync", "--log-level=warn",
		"--listen-client-urls=http://127.0.0.1:2379", "--advertise-client-urls=http://127.0.0.1:2379",
		"--listen-peer-urls=http://127.0.0.1:2380", "--initial-advertise-peer-urls=http://127.0.0.1:2380",
		"--initial-cluster=default=http://127.0.0.1:2380",
	}
}

func (n Node) apiserver() []string {
	return []string{
		n.bin(n.Kubernetes), "kube-apiserver",
		"--etcd-servers=http://127.0.0.1:2379",
		fmt.Sprintf("--secure-port=%d", n.Ports.API), "--advertise-address=" + IP,
		"--service-cluster-ip-range=" + serviceCIDR,
		"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction", "--allow-privileged=true",
		"--client-ca-file=" + n.etc("ca.crt"),
		"--tls-cert-file=" + n.etc("kube-apiserver.crt"), "--tls-private-key-file=" + n.etc("kube-apiserver.key"),
		"--requestheader-client-ca-file=" + n.etc(frontProxy+"-ca.crt"), "--requestheader-allowed-names=" + frontProxy,
		"--requestheader-username-headers=X-Remote-User", "--requestheader-group-headers=X-Remote-Group", "--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file=" + n.etc(frontProxy+".crt"), "--proxy-client-key-file=" + n.etc(frontProxy+".key"),
		"--kubelet-certificate-authority=" + n.etc("ca.crt"),
		"--kubelet-client-certificate=" + n.etc("kube-apiserver.crt"), "--kubelet-client-key=" + n.etc("kube-apiserver.key"),
		// Otherwise kubectl logs would resolve the node's name.
		"--kubelet-preferred-address-types=InternalIP",
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file=" + n.etc("service-account.key"),
		"--service-account-signing-key-file=" + n.etc("service-account.key"),
		"--audit-policy-file=" + n.etc("audit.yaml"), "--audit-log-path=" + n.AuditLog(),
		"--audit-log-maxsize=500", "--audit-log-maxbackup=1",
	}
}

func (n Node) manager() []string {
	return []string{
		n.bin(n.Kubernetes), "kube-controller-manager",
		"--kubeconfig=" + n.Kubeconfig("kube-controller-manager"), "--leader-elect=false",
		"--use-service-account-credentials", "--root-ca-file=" + n.etc("ca.crt"),
		"--service-account-private-key-file=" + n.etc("service-account.key"),
		// Created even if there is no such plugin, and by default outside of the cell.
		"--flex-volume-plugin-dir=" + flexVolumes,
		// By default, an autoscaler waits five minutes before it scales down.
		"--horizontal-pod-autoscaler-downscale-stabilization=30s",
	}
}

func (n Node) scheduler() []string {
	return []string{
		n.bin(n.Kubernetes), "kube-scheduler",
		"--kubeconfig=" + n.Kubeconfig("kube-scheduler"), "--leader-elect=false",
	}
}

func (n Node) kubelet() []string {
	return []string{
		n.bin(n.Kubernetes), "kubelet",
		"--kubeconfig=" + n.Kubeconfig("kubelet"), "--config=" + n.etc("kubelet.yaml"),
		"--hostname-override=" + n.Name(), "--node-ip=" + n.Addr(),
		"--v=2", // logs pod updates with their times, which the benchmarks read
	}
}

func (n Node) proxy() []string {
	return []string{
		n.bin(n.Kubernetes), "kube-proxy",
		"--kubeconfig=" + n.Kubeconfig("kube-proxy"), "--hostname-override=" + n.Name(),
		"--proxy-mode=" + n.proxyMode(), "--cluster-cidr=" + n.PodCIDR(),
		// The kernel does not allow this setting in a network namespace.
		"--conntrack-max-per-core=0",
	}
}

// proxyMode returns iptables for Kubernetes 1.30, where nftables is an alpha feature.
func (n Node) proxyMode() string {
	if strings.HasSuffix(n.Kubernetes, "-1.30") {
		return "iptables"
	}
	return "nftables"
}
