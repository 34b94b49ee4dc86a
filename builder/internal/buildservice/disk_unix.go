//go:build unix

package buildservice

import "syscall"

// freeSpace returns what this process can still write to the disk of dir, in bytes, and
// the largest number if the system does not tell.
func freeSpace(dir string) uint64 {
	var disk syscall.Statfs_t
	if err := syscall.Statfs(dir, &disk); err != nil {
		return ^uint64(0)
	}
	return disk.Bavail * uint64(disk.Bsize)
}
