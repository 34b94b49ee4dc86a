package rule

import "math/rand/v2"

// The ports that activators listen on for functions, one for each.
const (
	FirstPort int32 = 10000
	LastPort  int32 = 29999
)

// Ports hands out ports. A port that was given back is not handed out again until all others
// were: nodes may still send to it what was meant for its former function.
type Ports struct{ last int32 }

// NewPorts begins at random, because nobody remembers which ports were given back of late.
func NewPorts() *Ports { return &Ports{last: FirstPort + rand.Int32N(LastPort-FirstPort+1)} }

// Next returns a port that is not taken, and false if there is none.
func (p *Ports) Next(taken func(int32) bool) (int32, bool) {
	for range LastPort - FirstPort + 1 {
		if p.last++; p.last > LastPort {
			p.last = FirstPort
		}
		if !taken(p.last) {
			return p.last, true
		}
	}
	return 0, false
}
