// Package parts builds the programs of a cluster from Go modules and installs the system
// packages that they need. Built programs are cached, and rebuilt only if their source, their
// version or Go has changed.
//
// The package does not know how the parts are run.
package parts

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"goless.io/test/cluster/internal/progress"
)

// debian maps each required file or command to its Debian package.
var debian = []struct{ need, pkg string }{
	{"runc", "runc"},
	{"nft", "nftables"},
	{"iptables", "iptables"},
	{"ip", "iproute2"},
	{"/etc/ssl/certs/ca-certificates.crt", "ca-certificates"},
	{"/usr/share/zoneinfo/Europe/Berlin", "tzdata"},
	{"curl", "curl"}, // used by the pages of docs/
}

// cniPackage contains the network plugins, whose directory differs between distributions.
const cniPackage = "containernetworking-plugins"

var cniFolders = []string{"/usr/lib/cni", "/opt/cni/bin", "/usr/libexec/cni"}

// CNI returns the directory of the network plugins, and whether it exists.
func CNI() (string, bool) {
	i := slices.IndexFunc(cniFolders, func(dir string) bool {
		_, err := os.Stat(filepath.Join(dir, "ptp"))
		return err == nil
	})
	if i < 0 {
		return "", false
	}
	return cniFolders[i], true
}

// InstallPackages installs missing packages with apt-get. Without apt-get, the error lists the
// packages to install.
func InstallPackages(say *progress.Printer) error {
	missing := missingPackages()
	if len(missing) == 0 {
		return nil
	}
	list := strings.Join(missing, " ")
	if _, err := exec.LookPath("apt-get"); err != nil {
		return fmt.Errorf("install what Debian calls %s, then try again", list)
	}
	say.Say("installing Debian packages: %s ...", list)
	err := apt(append([]string{"install", "-y", "-q", "--no-install-recommends"}, missing...)...)
	if err != nil {
		// The usual reason is that the package lists are outdated or empty.
		if err := apt("update", "-q"); err != nil {
			return err
		}
		if err := apt(append([]string{"install", "-y", "-q", "--no-install-recommends"}, missing...)...); err != nil {
			return err
		}
	}
	if left := missingPackages(); len(left) > 0 {
		return fmt.Errorf("apt-get installed %s, and yet this is missing: %s", list, strings.Join(left, " "))
	}
	return nil
}

func missingPackages() []string {
	var missing []string
	for _, d := range debian {
		if !exists(d.need) {
			missing = append(missing, d.pkg)
		}
	}
	if _, ok := CNI(); !ok {
		missing = append(missing, cniPackage)
	}
	return missing
}

// exists reports whether a path exists, or a command is in PATH.
func exists(need string) bool {
	if filepath.IsAbs(need) {
		_, err := os.Stat(need)
		return err == nil
	}
	_, err := exec.LookPath(need)
	return err == nil
}

func apt(args ...string) error {
	command := exec.Command("apt-get", args...)
	command.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	out, err := command.CombinedOutput()
	if err == nil {
		return nil
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	const tail = 5
	return errors.Join(
		fmt.Errorf("apt-get %s: %w", strings.Join(args, " "), err),
		errors.New(strings.Join(lines[max(0, len(lines)-tail):], "\n")),
	)
}
