package faults

import (
	"fmt"
	"os"
	"runtime"
	"time"
)

// calm is the time without a write after which no more writes are expected.
const calm = time.Second

// stretched extends a duration on a busy machine, where programs wait for processors. A load of
// up to four per processor does not extend it.
func stretched(d time.Duration) time.Duration {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return d // the kernel does not report the load
	}
	var load float64
	if _, err := fmt.Sscan(string(text), &load); err != nil {
		return d
	}
	return time.Duration(float64(d) * max(1, load/float64(4*runtime.NumCPU())))
}
