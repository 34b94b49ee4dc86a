// Package node owns what the programs of the cluster are told: the addresses
// inside the cell, the configuration files, certificates and flags of a control
// plane and one node. It refuses to know how programs are started and kept.
package node

import (
	"path/filepath"
	"strconv"

	"goless.io/test/cluster/internal/checkout"
	"goless.io/test/cluster/internal/images"
)

// The addresses of every cluster. They are the same in all of them, because a
// cluster's network namespace shares none with the machine.
const (
	// Name is the name of the one node.
	Name = "goless"
	// IP is the node's address, where the API server, the kubelet and the name
	// server are reached from pods.
	IP = "172.30.0.1"

	podCIDR     = "172.30.1.0/24"
	serviceCIDR = "10.96.0.0/16"
	apiService  = "10.96.0.1"
	loopback    = "127.0.0.1"

	flexVolumes = "/var/lib/kubelet/volumeplugins"
)

// Node is the control plane and the node of one checkout.
type Node struct {
	Checkout checkout.Checkout
	Ports    checkout.Ports
	// CNI is the folder of the network plugins, Runc the path of runc.
	CNI, Runc string
}

// APIServer is the URL of the API server, inside the cell and outside of it.
func (n Node) APIServer() string {
	return "https://" + n.APIAddr()
}

// APIAddr is the address of the API server, inside the cell and outside of it.
func (n Node) APIAddr() string { return loopback + ":" + strconv.Itoa(n.Ports.API) }

// Registry is the address of the image registry, inside the cell and outside
// of it. Clients speak plain HTTP to an address of loopback by themselves.
func (n Node) Registry() string { return loopback + ":" + strconv.Itoa(n.Ports.Registry) }

// Etc is the folder of the files that Prepare writes.
func (n Node) Etc() string { return filepath.Join(n.Checkout.State(), "etc") }

// Kubeconfig is the path of the kubeconfig of one of the users that Prepare
// makes certificates for.
func (n Node) Kubeconfig(user string) string { return n.etc(user + ".kubeconfig") }

// ResolvConf is the path of a resolv.conf for processes of the node that want
// to resolve Services.
func (n Node) ResolvConf() string { return n.etc("resolv.conf") }

// AuditLog is the path of the API server's audit log, one JSON event a line.
func (n Node) AuditLog() string { return filepath.Join(n.Checkout.Logs(), "audit.log") }

// PauseProgram is the path of the program in the pause image.
func (n Node) PauseProgram() string { return n.bin("pause") }

func (n Node) etc(name string) string { return filepath.Join(n.Etc(), name) }
func (n Node) bin(name string) string { return filepath.Join(n.Checkout.Bin(), name) }

// values are what the configuration files are filled in with.
type values struct {
	Etc, Name, NodeIP, PodCIDR, CNI, Runc, Pause, FlexVolumes string
}

func (n Node) values() values {
	return values{
		Etc: n.Etc(), Name: n.Checkout.Name(), NodeIP: IP, PodCIDR: podCIDR,
		CNI: n.CNI, Runc: n.Runc, Pause: images.PauseRef(n.Registry()), FlexVolumes: flexVolumes,
	}
}
