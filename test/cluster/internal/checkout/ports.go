package checkout

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Ports are the two TCP ports of the cluster. They are the same on the machine's loopback and on
// the loopback of the cluster's namespace, so that image references and kubeconfigs are valid on
// both sides.
type Ports struct {
	API      int `json:"api"`
	Registry int `json:"registry"`
}

// The range of the ports of clusters. It is below the range that Linux uses for outgoing
// connections (32768 and up), where a port could be taken at any time.
const firstPort, portCount = 20000, 12000

// ChoosePorts returns the ports of the previous cluster of this checkout if both are free.
// Otherwise it chooses and stores other free ports.
func (c Checkout) ChoosePorts(free func(port int) bool) (Ports, error) {
	if p, err := c.Ports(); err == nil && free(p.API) && free(p.Registry) {
		return p, nil
	}
	p, err := c.pick(free)
	if err != nil {
		return Ports{}, err
	}
	data, err := json.Marshal(p)
	if err != nil {
		return Ports{}, err
	}
	if err := os.MkdirAll(c.Cache(), 0o755); err != nil {
		return Ports{}, err
	}
	return p, os.WriteFile(c.portsFile(), data, 0o644)
}

// Ports returns the stored ports. The error is fs.ErrNotExist if no cluster of this checkout has
// run.
func (c Checkout) Ports() (Ports, error) {
	data, err := os.ReadFile(c.portsFile())
	if err != nil {
		return Ports{}, err
	}
	var p Ports
	if err := json.Unmarshal(data, &p); err != nil {
		return Ports{}, fmt.Errorf("%s: %w: remove it", c.portsFile(), err)
	}
	if p.API == 0 || p.Registry == 0 {
		return Ports{}, fmt.Errorf("%s names no port: %w", c.portsFile(), fs.ErrNotExist)
	}
	return p, nil
}

// pick searches the range once, starting at a port derived from the path of the checkout.
func (c Checkout) pick(free func(port int) bool) (Ports, error) {
	sum := sha256.Sum256([]byte(c.Root))
	start := int(binary.BigEndian.Uint32(sum[:4]) % portCount)
	var found []int
	for i := range portCount {
		port := firstPort + (start+i)%portCount
		if !free(port) {
			continue
		}
		if found = append(found, port); len(found) == 2 {
			return Ports{API: found[0], Registry: found[1]}, nil
		}
	}
	return Ports{}, errors.New("no two free ports on loopback: end what holds them")
}

func (c Checkout) portsFile() string { return filepath.Join(c.Cache(), "ports.json") }
