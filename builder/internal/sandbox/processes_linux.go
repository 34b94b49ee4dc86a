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

// endTimeout is how long the processes of a group may take to end after they were killed.
// Only a process that waits for a device that does not respond takes longer than an instant.
const endTimeout = 10 * time.Second

// usage is what the processes of a group use together.
type usage struct {
	alive  int           // processes that have not ended
	memory uint64        // resident, in bytes, without what a file backs
	cpu    time.Duration // with that of their children that have ended
}

// groupUsage measures the processes of a group. Those that have left it are not counted:
// see restrictProcesses.
func groupUsage(group int) (sum usage) {
	processes, _ := filepath.Glob("/proc/[0-9]*") // the pattern is well-formed
	for _, process := range processes {
		fields := statFields(process)
		if len(fields) < 15 || string(fields[2]) != strconv.Itoa(group) {
			continue
		}
		for _, ticks := range fields[11:15] { // of itself and of its children, in user and in kernel mode
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

// statFields returns what the kernel reports of a process or a thread: its state, its parent, its
// group, and, from the eleventh on, four times. It returns nothing of one that has ended.
func statFields(directory string) [][]byte {
	data, _ := os.ReadFile(filepath.Join(directory, "stat"))
	return bytes.Fields(data[bytes.LastIndexByte(data, ')')+1:]) // the name before that may hold anything
}

// runningThread returns the directory of a thread that has not ended, of a process with these
// fields: usually its first one, which is that of the process. When that one ends, the kernel
// reports the process as a zombie without memory, also while others run.
func runningThread(process string, fields [][]byte) (directory string, ok bool) {
	if !isZombie(fields) {
		return process, true
	}
	threads, _ := filepath.Glob(filepath.Join(process, "task", "[0-9]*")) // the pattern is well-formed
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

// residentMemory returns the anonymous and the shared memory of a process or a thread, in bytes. What
// several processes share is counted for each of them: compilers share nothing.
func residentMemory(directory string) (sum uint64) {
	status, _ := os.ReadFile(filepath.Join(directory, "status")) // it may have ended
	for line := range bytes.Lines(status) {
		name, value, _ := bytes.Cut(line, []byte(":"))
		if name := string(name); name == "RssAnon" || name == "RssShmem" {
			kib, _ := strconv.ParseUint(string(bytes.TrimSuffix(bytes.TrimSpace(value), []byte(" kB"))), 10, 64)
			sum += kib << 10
		}
	}
	return sum
}

// wait waits for the end of a command, and kills what it has left in its process group.
// The error is that of cmd.Wait, or that something is left.
func wait(cmd *exec.Cmd) error {
	group := cmd.Process.Pid
	// The command stays a zombie until cmd.Wait, so that no other process has its number.
	for errors.Is(unix.Waitid(unix.P_PID, group, nil, unix.WEXITED|unix.WNOWAIT, nil), unix.EINTR) {
	}
	_ = killGroup(group) // usually nothing is left
	err := cmd.Wait()
	if left := awaitEnd(group); left != nil {
		return left
	}
	return err
}

// awaitEnd waits until all processes of a group that was killed have ended.
func awaitEnd(group int) error {
	defer reap(group)
	for deadline := time.Now().Add(endTimeout); ; time.Sleep(time.Millisecond) {
		isEmpty := errors.Is(syscall.Kill(-group, 0), syscall.ESRCH)
		if isEmpty || groupUsage(group).alive == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("processes of a command are left %s after they were killed; restart the container of the builder", endTimeout)
		}
	}
}

// reap awaits the processes of a group that have ended. If this process is the first one of
// a container, it has inherited them, and without a wait they would stay zombies.
func reap(group int) {
	for {
		if id, err := syscall.Wait4(-group, nil, syscall.WNOHANG, nil); id <= 0 && !errors.Is(err, syscall.EINTR) {
			return
		}
	}
}
