package sandbox

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
)

// groupMemory returns the resident memory of all processes of a group, in bytes,
// without the pages that they share or that a file backs.
func groupMemory(group int) (sum uint64) {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is well-formed
	for _, stat := range stats {
		data, err := os.ReadFile(stat)
		if err != nil {
			continue // the process has ended
		}
		// The name of the process is in parentheses and may hold anything. The
		// fields after it are the state, the parent and the group.
		fields := bytes.Fields(data[bytes.LastIndexByte(data, ')')+1:])
		if len(fields) < 3 || string(fields[2]) != strconv.Itoa(group) {
			continue
		}
		data, err = os.ReadFile(filepath.Dir(stat) + "/statm")
		pages := bytes.Fields(data)
		if err != nil || len(pages) < 3 {
			continue
		}
		resident, _ := strconv.ParseUint(string(pages[1]), 10, 64) // the kernel writes digits
		shared, _ := strconv.ParseUint(string(pages[2]), 10, 64)
		sum += (resident - min(shared, resident)) * uint64(os.Getpagesize())
	}
	return sum
}
