// Command kubernetes-1.30 is command kubernetes for Kubernetes 1.30, the oldest version that
// Goless supports. It is a separate module, because each version of Kubernetes requires its own
// versions of its dependencies.
//
// It contains a control plane, a node and kubectl in one static binary: etcd, kube-apiserver,
// kube-controller-manager, kube-scheduler, kubelet, kube-proxy and kubectl. The name of the
// binary or the first argument selects the program. One binary links in seconds instead of
// minutes, and its pages are shared by the processes of the node.
package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	_ "k8s.io/client-go/plugin/pkg/client/auth" // kubectl's ways to log in
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // client metrics
	_ "k8s.io/component-base/metrics/prometheus/version"  // version metric
	kubectl "k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	manager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

// programs maps names to main functions.
var programs = map[string]func(){
	"etcd":                    func() { etcdmain.Main(os.Args) },
	"kube-apiserver":          daemon(apiserver.NewAPIServerCommand),
	"kube-controller-manager": daemon(manager.NewControllerManagerCommand),
	"kube-proxy":              daemon(proxy.NewProxyCommand),
	"kube-scheduler":          daemon(func() *cobra.Command { return scheduler.NewSchedulerCommand() }),
	"kubelet":                 daemon(kubelet.NewKubeletCommand),
	"kubectl":                 client,
}

func main() {
	if run, ok := programs[filepath.Base(os.Args[0])]; ok {
		run()
		return
	}
	if len(os.Args) > 1 {
		if run, ok := programs[os.Args[1]]; ok {
			os.Args = os.Args[1:]
			run()
			return
		}
	}
	names := slices.Sorted(maps.Keys(programs))
	fmt.Fprintf(os.Stderr, "usage: kubernetes %s [flags]\n", strings.Join(names, "|"))
	os.Exit(2)
}

// daemon returns the main function of a server. The command is created late, because that
// registers flags and metrics in process-wide tables.
func daemon(command func() *cobra.Command) func() {
	return func() { os.Exit(cli.Run(command())) }
}

// client is kubectl, which prints its own errors.
func client() {
	if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
		util.CheckErr(err)
	}
}
