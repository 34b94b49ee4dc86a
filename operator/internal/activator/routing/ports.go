package routing

import (
	"math/rand/v2"
	"sync/atomic"
)

// The range of ports on which activators listen, one port for each function.
const (
	FirstPort int32 = 10000
	LastPort  int32 = 29999
)

// Ports allocates ports round robin. A released port is reused as late as possible, because nodes
// may still route requests of its previous function to it.
type Ports struct{ last atomic.Uint32 }

// NewPorts returns Ports that start at a random port: which ports were used before this process
// started is unknown.
func NewPorts() *Ports {
	p := &Ports{}
	p.last.Store(rand.Uint32())
	return p
}

// Next returns a port for which taken returns false. It returns false if all ports are taken.
func (p *Ports) Next(taken func(int32) bool) (int32, bool) {
	const all = uint32(LastPort - FirstPort + 1)
	for range all {
		if port := FirstPort + int32(p.last.Add(1)%all); !taken(port) {
			return port, true
		}
	}
	return 0, false
}
