// Command coredns is CoreDNS with the few plugins that a cluster's own names
// need: no forwarding, because the cluster's network reaches nothing outside.
//
// It owns the choice of plugins and their order; the Corefile is the cluster's.
package main

import (
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/template"
)

func main() {
	dnsserver.Directives = []string{"errors", "template", "kubernetes"}
	coremain.Run()
}
