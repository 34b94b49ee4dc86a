package gotool

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// memoryPause is how often the memory of a process group is measured. In that time
// a compiler touches some ten MiB.
const memoryPause = 20 * time.Millisecond

// limitMemory kills a process group, as the kernel does with a container, when its
// processes use more memory together than limit, in bytes. 0 is no limit. The
// limits that each process sets for itself are not enough: the go command starts
// several compilers. It goes on until it is called off.
func limitMemory(group int, limit uint64) (callOff func()) {
	if limit == 0 {
		return func() {}
	}
	return killWhen(group, memoryPause, func() bool { return groupMemory(group) > limit })
}

// groupMemory returns what the processes of a group use and no file backs, in
// bytes.
func groupMemory(group int) (sum uint64) {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is right
	for _, stat := range stats {
		data, err := os.ReadFile(stat)
		if err != nil {
			continue // it has ended
		}
		// After the name, which may hold anything: the state, the parent, the group.
		fields := bytes.Fields(data[bytes.LastIndexByte(data, ')')+1:])
		if len(fields) < 3 || string(fields[2]) != strconv.Itoa(group) {
			continue
		}
		data, err = os.ReadFile(filepath.Dir(stat) + "/statm")
		pages := bytes.Fields(data)
		if err != nil || len(pages) < 3 {
			continue
		}
		resident, _ := strconv.ParseUint(string(pages[1]), 10, 64) // digits
		shared, _ := strconv.ParseUint(string(pages[2]), 10, 64)
		sum += (resident - min(shared, resident)) * uint64(os.Getpagesize())
	}
	return sum
}
