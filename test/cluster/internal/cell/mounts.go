package cell

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// UnmountUnder unmounts everything below dir, the last mount first. The mounts of a cell end
// with it; this makes sure that dir can be removed safely.
func UnmountUnder(dir string) error {
	mountinfo, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	points, err := mountsUnder(string(mountinfo), dir)
	if err != nil {
		return err
	}
	for _, point := range slices.Backward(points) {
		if err := unix.Unmount(point, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil {
			return fmt.Errorf("unmount %s: %w", point, err)
		}
	}
	return nil
}

// octal decodes the escapes of mountinfo, see proc_pid_mountinfo(5).
var octal = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

// mountsUnder parses a mountinfo file and returns the mount points below dir in the order in
// which they were mounted.
func mountsUnder(mountinfo, dir string) ([]string, error) {
	const mountPoint = 4
	var points []string
	below := strings.TrimSuffix(filepath.Clean(dir), "/") + "/"
	for line := range strings.Lines(mountinfo) {
		fields := strings.Fields(line)
		if len(fields) <= mountPoint {
			return nil, fmt.Errorf("not a line of mountinfo: %q", line)
		}
		if point := octal.Replace(fields[mountPoint]); strings.HasPrefix(point, below) {
			points = append(points, point)
		}
	}
	return points, nil
}
