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

// Ports are the two TCP ports of the cluster, the same on the machine's
// loopback and on the loopback of the cluster's namespace. Image references and
// kubeconfigs that name them mean the same thing on both sides.
type Ports struct {
	API      int `json:"api"`
	Registry int `json:"registry"`
}

// The ports of clusters lie below the range from which Linux takes the ports of
// outgoing connections (32768 and up), where one could be taken at any moment.
const firstPort, portCount = 20000, 12000

// ChoosePorts returns the ports of an earlier cluster of this checkout where
// both are free, other free ones otherwise, and remembers them.
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

// Ports returns the remembered ports. The error is fs.ErrNotExist where no
// cluster of this checkout ever ran.
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

// pick walks the range once, from a place that the path of the checkout gives.
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
