package sandbox

import (
	"os"

	"github.com/landlock-lsm/go-landlock/landlock"
	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
)

// restrict takes from this process all files that the policy does not name, and
// the network, as far as the kernel can.
func (p Policy) restrict() error {
	if p.Open || !ConfinesFiles() {
		return nil
	}
	rules := []landlock.Rule{
		landlock.RODirs(p.Read...),
		landlock.RWDirs(p.Write...),
		landlock.ROFiles(p.Files...),
		landlock.RWFiles(os.DevNull),
	}
	for _, port := range p.Ports {
		rules = append(rules, landlock.ConnectTCP(port))
	}
	if len(p.Ports) > 0 { // the names of hosts have to be resolved
		rules = append(rules, landlock.ConnectTCP(dnsPort), landlock.ConnectSendUDP(dnsPort), landlock.BindUDP(0))
	}
	return landlock.V10.BestEffort().Restrict(rules...)
}

const dnsPort = 53

// ConfinesFiles reports whether the kernel has Landlock, which keeps a command
// from files.
func ConfinesFiles() bool { return LandlockVersion() > 0 }

// LandlockVersion returns the version of the kernel's Landlock ABI, or 0 if the
// kernel has no Landlock. Since version 4, of Linux 6.7, Landlock also keeps a command
// from TCP, and since version 10 from UDP.
func LandlockVersion() int {
	version, err := ll.LandlockGetABIVersion()
	if err != nil {
		return 0
	}
	return version
}
