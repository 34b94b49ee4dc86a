package main

import (
	"io"

	"github.com/spf13/cobra"

	"goless.io/builder/internal/kubectl"
)

// clusterFlags contains the flags that select a cluster and a namespace. They have the same names and
// meaning as those of kubectl.
type clusterFlags struct {
	namespace, context, kubeconfig string
}

func (c *clusterFlags) addFlags(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&c.namespace, "namespace", "n", "", "`namespace` of the Function (default: the namespace of the context)")
	cmd.Flags().StringVar(&c.context, "context", "", "`name` of the context in the kubeconfig (default: the current one)")
	cmd.Flags().StringVar(&c.kubeconfig, "kubeconfig", "", "kubeconfig `file` (default: that of kubectl)")
}

// kubectl returns a client that runs kubectl with the flags. Warnings of kubectl are written to
// warnings.
func (c *clusterFlags) kubectl(warnings io.Writer) *kubectl.Client {
	k := &kubectl.Client{Warnings: warnings}
	for _, flag := range []struct{ name, value string }{{"namespace", c.namespace}, {"context", c.context}, {"kubeconfig", c.kubeconfig}} {
		if flag.value != "" {
			k.Flags = append(k.Flags, "--"+flag.name+"="+flag.value)
		}
	}
	return k
}

// completeFunctions completes an argument with the names of the Functions in the namespace.
func (c *clusterFlags) completeFunctions(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	names, _ := c.kubectl(io.Discard).Names(cmd.Context()) // completion cannot report errors
	return names, cobra.ShellCompDirectiveNoFileComp
}
