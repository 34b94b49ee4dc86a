package rule

import (
	"math/rand/v2"
	"sync/atomic"
)

// The ports that activators listen on for functions, one for each.
const (
	FirstPort int32 = 10000
	LastPort  int32 = 29999
)

// Ports hands out ports. A port that a function does not need any more is not handed out again until
// all others were, because nodes may still send requests for that function to it.
type Ports struct{ last atomic.Uint32 }

// NewPorts returns Ports that begin at random: which ports functions had before this process is unknown.
func NewPorts() *Ports {
	p := &Ports{}
	p.last.Store(rand.Uint32())
	return p
}

// Next returns a port that is not taken, and false if there is none.
func (p *Ports) Next(taken func(int32) bool) (int32, bool) {
	const all = uint32(LastPort - FirstPort + 1)
	for range all {
		if port := FirstPort + int32(p.last.Add(1)%all); !taken(port) {
			return port, true
		}
	}
	return 0, false
}
