package main

import (
	"fmt"
	"strings"

	"goless.io/test/cluster/internal/images"
	"goless.io/test/cluster/internal/node"
)

// environment returns a script of export lines for users of the cluster. kubectl and ko read
// the first ones, tests the others.
func (c cluster) environment(n node.Node) string {
	var script strings.Builder
	for _, v := range []struct{ name, value string }{
		{"KUBECONFIG", c.checkout.Kubeconfig()},
		{"KO_DOCKER_REPO", n.Registry()},
		{"KO_DEFAULTBASEIMAGE", images.StaticRef(n.Registry())},
		{"GOLESS_CLUSTER_NETNS", cellOf(n).NetPath()},
		{"GOLESS_CLUSTER_AUDIT_LOG", n.AuditLog()},
	} {
		fmt.Fprintf(&script, "export %s=%s\n", v.name, quote(v.value))
	}
	fmt.Fprintf(&script, "export PATH=%s:\"$PATH\"\n", quote(c.checkout.Tools()))
	return script.String()
}

// quote returns s as one word of a POSIX shell.
func quote(s string) string {
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
