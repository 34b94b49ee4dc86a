package sandbox

import (
	"fmt"
	"os"

	"github.com/landlock-lsm/go-landlock/landlock"
	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
)

// These are the rights to what is below a directory of Policy.Write: writing, to make and change
// regular files and directories, and removing, which a Policy adds. Whoever reads the results
// must not be led elsewhere by a symbolic link, or wait for a FIFO.
const (
	writing = ll.AccessFSExecute | ll.AccessFSReadFile | ll.AccessFSReadDir |
		ll.AccessFSWriteFile | ll.AccessFSTruncate | ll.AccessFSMakeReg | ll.AccessFSMakeDir
	removing = ll.AccessFSRemoveFile | ll.AccessFSRemoveDir
)

// restrict takes from this process all files that the policy does not name, the network,
// and the system calls by which a process escapes its limits, as far as the kernel can.
func (p Policy) restrict() error {
	if p.Open {
		return nil
	}
	if err := restrictProcesses(); err != nil {
		return fmt.Errorf("seccomp: %w", err)
	}
	if !ConfinesFiles() {
		return nil
	}
	write := landlock.AccessFSSet(writing)
	if p.Removes {
		write |= removing
	}
	rules := []landlock.Rule{
		landlock.RODirs(p.Read...),
		landlock.PathAccess(write, p.Write...),
		landlock.ROFiles(p.Files...),
		landlock.RWFiles(append(p.WriteFiles, os.DevNull)...),
	}
	for _, port := range p.Ports {
		rules = append(rules, landlock.ConnectTCP(port))
	}
	if len(p.Ports) > 0 { // the names of hosts have to be resolved
		rules = append(rules, landlock.ConnectTCP(dnsPort), landlock.ConnectSendUDP(dnsPort), landlock.BindUDP(0))
	}
	if err := landlock.V10.BestEffort().Restrict(rules...); err != nil {
		return fmt.Errorf("landlock: %w", err)
	}
	return nil
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
