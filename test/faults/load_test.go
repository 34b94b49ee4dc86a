package faults

import (
	"fmt"
	"os"
	"runtime"
	"time"
)

// calm is how long nothing must be written before nothing more will be.
const calm = time.Second

// stretched is how long a time is on a machine that has much else to do: what a
// program does within a second when it is alone takes longer where others wait
// for each processor. Up to four of them make no difference.
func stretched(d time.Duration) time.Duration {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return d // a kernel that does not tell
	}
	var load float64
	if _, err := fmt.Sscan(string(text), &load); err != nil {
		return d
	}
	return time.Duration(float64(d) * max(1, load/float64(4*runtime.NumCPU())))
}
