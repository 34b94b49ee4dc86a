// Package node defines the arguments of the cluster's programs: the addresses in the cells, and
// the configuration files, certificates and flags of a control plane and its nodes. It does not
// start programs.
package node

import (
	"fmt"
	"path/filepath"
	"strconv"

	"goless.io/test/cluster/internal/checkout"
	"goless.io/test/cluster/internal/images"
)

// Addresses of every cluster. They are the same in all clusters, because each has its own
// network namespace.
const (
	// IP is the address of the first node, which runs the control plane. Pods reach the API
	// server and the name server at it.
	IP = "172.30.0.1"

	serviceCIDR = "10.96.0.0/16"
	apiService  = "10.96.0.1"
	loopback    = "127.0.0.1"

	flexVolumes = "/var/lib/kubelet/volumeplugins"
)

// MaxNodes is the maximum number of nodes of a cluster.
const MaxNodes = 2

// Node is a node of the cluster of a checkout. The first one also runs the control plane.
type Node struct {
	Checkout checkout.Checkout
	Ports    checkout.Ports
	// Number is the number of the node. The first one is 1.
	Number int
	// Kubernetes is the name of the program that contains Kubernetes.
	Kubernetes string
	// CNI is the directory of the network plugins, Runc the path of runc.
	CNI, Runc string
}

// Name returns the name of the node.
func (n Node) Name() string { return "goless" + n.suffix() }

// Cell returns the name of the node's network namespace and cgroup.
func (n Node) Cell() string { return n.Checkout.Name() + n.suffix() }

// Addr returns the address of the node.
func (n Node) Addr() string { return fmt.Sprintf("172.30.0.%d", n.Number) }

// PodCIDR returns the addresses of the node's pods.
func (n Node) PodCIDR() string { return fmt.Sprintf("172.30.%d.0/24", n.Number) }

// suffix distinguishes the names of the nodes after the first one.
func (n Node) suffix() string {
	if n.Number == 1 {
		return ""
	}
	return fmt.Sprintf("-%d", n.Number)
}

// APIServer returns the URL of the API server, inside the first cell and outside.
func (n Node) APIServer() string {
	return "https://" + n.APIAddr()
}

// serverForNode returns the URL of the API server for programs of the node.
func (n Node) serverForNode() string {
	if n.Number == 1 {
		return n.APIServer()
	}
	return "https://" + IP + ":" + strconv.Itoa(n.Ports.API)
}

// APIAddr returns the address of the API server, inside the first cell and outside.
func (n Node) APIAddr() string { return loopback + ":" + strconv.Itoa(n.Ports.API) }

// Registry returns the address of the image registry, inside and outside of the cells. Clients
// use plain HTTP for loopback addresses by default.
func (n Node) Registry() string { return loopback + ":" + strconv.Itoa(n.Ports.Registry) }

// State returns the directory of all files of the node that are removed with the cluster.
func (n Node) State() string { return filepath.Join(n.Checkout.State(), n.Name()) }

// Logs returns the directory of the logs of the node's programs.
func (n Node) Logs() string {
	if n.Number == 1 {
		return n.Checkout.Logs()
	}
	return filepath.Join(n.Checkout.Logs(), n.Name())
}

// Etc returns the directory of the node's files that Prepare writes.
func (n Node) Etc() string { return filepath.Join(n.State(), "etc") }

// Kubeconfig returns the path of the kubeconfig of a user for whom Prepare creates a
// certificate.
func (n Node) Kubeconfig(user string) string { return n.etc(user + ".kubeconfig") }

// ResolvConf returns the path of a resolv.conf with which processes of the node can resolve
// Services.
func (n Node) ResolvConf() string { return n.etc("resolv.conf") }

// AuditLog returns the path of the API server's audit log, with one JSON event per line.
func (n Node) AuditLog() string { return filepath.Join(n.Checkout.Logs(), "audit.log") }

// PauseProgram returns the path of the program in the pause image.
func (n Node) PauseProgram() string { return n.bin("pause") }

func (n Node) etc(name string) string { return filepath.Join(n.Etc(), name) }
func (n Node) bin(name string) string { return filepath.Join(n.Checkout.Bin(), name) }

// values are the variables of the configuration file templates.
type values struct {
	Etc, Cell, DNS, PodCIDR, CNI, Runc, Pause, FlexVolumes string
}

func (n Node) values() values {
	return values{
		Etc: n.Etc(), Cell: n.Cell(), DNS: IP, PodCIDR: n.PodCIDR(),
		CNI: n.CNI, Runc: n.Runc, Pause: images.PauseRef(n.Registry()), FlexVolumes: flexVolumes,
	}
}
