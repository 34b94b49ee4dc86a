package sandbox

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// endTimeout is how long the processes of a group may take to end after they were killed. Only a
// process that waits for a device that does not respond takes longer than an instant.
const endTimeout = 10 * time.Second

// usage is the total usage of the processes of a group.
type usage struct {
	alive  int           // number of processes that have not ended
	memory uint64        // resident, in bytes, without file-backed memory
	cpu    time.Duration // including that of children that have ended
}

// groupUsage measures the processes of a group. It does not count processes that have left it; see
// restrictProcesses.
func groupUsage(group int) (sum usage) {
	processes, _ := filepath.Glob("/proc/[0-9]*") // the pattern is valid
	for _, process := range processes {
		fields := statFields(process)
		if len(fields) < 15 || string(fields[2]) != strconv.Itoa(group) {
			continue
		}
		for _, ticks := range fields[11:15] { // of the process and of its children, in user and kernel mode
			n, _ := strconv.ParseInt(string(ticks), 10, 64) // the kernel writes digits
			sum.cpu += time.Duration(n) * time.Second / ticksPerSecond
		}
		if running, ok := runningThread(process, fields); ok {
			sum.alive++
			sum.memory += residentMemory(running)
		}
	}
	return sum
}

// statFields returns the fields that the kernel reports about a process or a thread: its state,
// parent and group, and, from index 11, four times. It returns nil if it has ended.
func statFields(directory string) [][]byte {
	data, _ := os.ReadFile(filepath.Join(directory, "stat"))
	return bytes.Fields(data[bytes.LastIndexByte(data, ')')+1:]) // the preceding name may contain any character
}

// runningThread returns the directory of a thread that has not ended, of a process with these
// fields. Usually that is the first thread, whose directory is that of the process. When the first
// thread ends, the kernel reports the process as a zombie without memory, even if other threads
// run.
func runningThread(process string, fields [][]byte) (directory string, ok bool) {
	if !isZombie(fields) {
		return process, true
	}
	threads, _ := filepath.Glob(filepath.Join(process, "task", "[0-9]*")) // the pattern is valid
	for _, thread := range threads {
		if fields := statFields(thread); len(fields) > 0 && !isZombie(fields) {
			return thread, true
		}
	}
	return "", false
}

func isZombie(fields [][]byte) bool { return string(fields[0]) == "Z" }

// ticksPerSecond is USER_HZ, the unit of times in /proc.
const ticksPerSecond = 100

// residentMemory returns the anonymous and shared memory of a process or a thread, in bytes. It
// counts memory that several processes share for each of them; compilers share none.
func residentMemory(directory string) (sum uint64) {
	status, _ := os.ReadFile(filepath.Join(directory, "status")) // may have ended
	for line := range bytes.Lines(status) {
		name, value, _ := bytes.Cut(line, []byte(":"))
		if name := string(name); name == "RssAnon" || name == "RssShmem" {
			kib, _ := strconv.ParseUint(string(bytes.TrimSuffix(bytes.TrimSpace(value), []byte(" kB"))), 10, 64)
			sum += kib << 10
		}
	}
	return sum
}

// wait waits until a command ends, and kills the remaining processes in its group. The error is
// that of cmd.Wait, or reports processes that did not end.
func wait(cmd *exec.Cmd) error {
	group := cmd.Process.Pid
	// The command stays a zombie until cmd.Wait, so no other process can get its PID.
	for errors.Is(unix.Waitid(unix.P_PID, group, nil, unix.WEXITED|unix.WNOWAIT, nil), unix.EINTR) {
	}
	_ = killGroup(group) // usually no process is left
	err := cmd.Wait()
	if left := awaitEnd(group); left != nil {
		return left
	}
	return err
}

// awaitEnd waits until all processes of a killed group have ended.
func awaitEnd(group int) error {
	defer reap(group)
	for deadline := time.Now().Add(endTimeout); ; time.Sleep(time.Millisecond) {
		isEmpty := errors.Is(syscall.Kill(-group, 0), syscall.ESRCH)
		if isEmpty || groupUsage(group).alive == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("processes of a command still run %s after they were killed; restart the container of the builder", endTimeout)
		}
	}
}

// reap waits for the processes of a group that have ended. If this process is PID 1 of a container,
// it has inherited these processes, which would otherwise stay zombies.
func reap(group int) {
	for {
		if id, err := syscall.Wait4(-group, nil, syscall.WNOHANG, nil); id <= 0 && !errors.Is(err, syscall.EINTR) {
			return
		}
	}
}
