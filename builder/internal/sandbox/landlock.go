package sandbox

import (
	"fmt"
	"os"

	"github.com/landlock-lsm/go-landlock/landlock"
	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
)

// Landlock rights to the content of the directories in Policy.Write: writing includes creating and
// changing regular files and directories; Policy.Removes adds removing. Symbolic links and FIFOs
// are not allowed: they could lead a reader of the results elsewhere, or block it.
const (
	writing = ll.AccessFSExecute | ll.AccessFSReadFile | ll.AccessFSReadDir |
		ll.AccessFSWriteFile | ll.AccessFSTruncate | ll.AccessFSMakeReg | ll.AccessFSMakeDir
	removing = ll.AccessFSRemoveFile | ll.AccessFSRemoveDir
)

// restrict prevents this process, as far as the kernel can, from accessing files that are not in
// the policy and the network, and from system calls by which a process could escape its limits.
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
	if len(p.Ports) > 0 { // host names have to be resolved
		rules = append(rules, landlock.ConnectTCP(dnsPort), landlock.ConnectSendUDP(dnsPort), landlock.BindUDP(0))
	}
	if err := landlock.V10.BestEffort().Restrict(rules...); err != nil {
		return fmt.Errorf("landlock: %w", err)
	}
	return nil
}

const dnsPort = 53

// ConfinesFiles reports whether the kernel has Landlock, which restricts access to files.
func ConfinesFiles() bool { return LandlockVersion() > 0 }

// LandlockVersion returns the version of the kernel's Landlock ABI, or 0 if the kernel has no
// Landlock. Landlock restricts TCP since version 4 (Linux 6.7), and UDP since version 10.
func LandlockVersion() int {
	version, err := ll.LandlockGetABIVersion()
	if err != nil {
		return 0
	}
	return version
}
