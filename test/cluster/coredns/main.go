// Command coredns is CoreDNS with the plugins that are required to resolve names of the cluster.
// It forwards no queries, because the cluster's network has no access to other networks.
//
// This package selects the plugins and their order. The cluster provides the Corefile.
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
