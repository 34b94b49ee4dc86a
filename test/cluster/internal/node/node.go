// Package node defines the arguments of the cluster's programs: the addresses in the cell, and
// the configuration files, certificates and flags of a control plane and one node. It does not
// start programs.
package node

import (
	"path/filepath"
	"strconv"

	"goless.io/test/cluster/internal/checkout"
	"goless.io/test/cluster/internal/images"
)

// Addresses of every cluster. They are the same in all clusters, because each has its own
// network namespace.
const (
	// Name is the name of the only node.
	Name = "goless"
	// IP is the address of the node. Pods reach the API server, the kubelet and the name server
	// at it.
	IP = "172.30.0.1"

	podCIDR     = "172.30.1.0/24"
	serviceCIDR = "10.96.0.0/16"
	apiService  = "10.96.0.1"
	loopback    = "127.0.0.1"

	flexVolumes = "/var/lib/kubelet/volumeplugins"
)

// Node is the control plane and the node of a checkout.
type Node struct {
	Checkout checkout.Checkout
	Ports    checkout.Ports
	// CNI is the directory of the network plugins, Runc the path of runc.
	CNI, Runc string
}

// APIServer returns the URL of the API server, inside and outside of the cell.
func (n Node) APIServer() string {
	return "https://" + n.APIAddr()
}

// APIAddr returns the address of the API server, inside and outside of the cell.
func (n Node) APIAddr() string { return loopback + ":" + strconv.Itoa(n.Ports.API) }

// Registry returns the address of the image registry, inside and outside of the cell. Clients
// use plain HTTP for loopback addresses by default.
func (n Node) Registry() string { return loopback + ":" + strconv.Itoa(n.Ports.Registry) }

// Etc returns the directory of the files that Prepare writes.
func (n Node) Etc() string { return filepath.Join(n.Checkout.State(), "etc") }

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
	Etc, Name, NodeIP, PodCIDR, CNI, Runc, Pause, FlexVolumes string
}

func (n Node) values() values {
	return values{
		Etc: n.Etc(), Name: n.Checkout.Name(), NodeIP: IP, PodCIDR: podCIDR,
		CNI: n.CNI, Runc: n.Runc, Pause: images.PauseRef(n.Registry()), FlexVolumes: flexVolumes,
	}
}
