package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"goless.io/test/cluster/internal/node"
	"goless.io/test/cluster/internal/parts"
)

// settings are chosen when a cluster starts, and do not change while it runs.
type settings struct {
	// Kubernetes is the version of Kubernetes, or empty for the default.
	Kubernetes string `json:"kubernetes,omitempty"`
	Nodes      int    `json:"nodes"`
}

// defaults are the settings of make demo and make test.
var defaults = settings{Nodes: 1}

// wanted returns base with the changes that the environment variables KUBERNETES and NODES make.
func wanted(base settings) (settings, error) {
	if version := os.Getenv("KUBERNETES"); version != "" {
		if _, err := parts.Kubernetes(version); err != nil {
			return base, fmt.Errorf("KUBERNETES: %w", err)
		}
		base.Kubernetes = version
	}
	if text := os.Getenv("NODES"); text != "" {
		nodes, err := strconv.Atoi(text)
		if err != nil || nodes < 1 || nodes > node.MaxNodes {
			return base, fmt.Errorf("NODES is %q, must be 1 to %d", text, node.MaxNodes)
		}
		base.Nodes = nodes
	}
	return base, nil
}

// settings returns the settings with which the cluster was started.
func (c cluster) settings() (settings, error) {
	data, err := os.ReadFile(c.settingsFile())
	if errors.Is(err, fs.ErrNotExist) {
		return defaults, nil
	}
	if err != nil {
		return settings{}, err
	}
	var s settings
	if err := json.Unmarshal(data, &s); err != nil {
		return settings{}, fmt.Errorf("%s: %w", c.settingsFile(), err)
	}
	return s, nil
}

// store makes s the settings of the cluster that starts next.
func (c cluster) store(s settings) error {
	data, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return os.WriteFile(c.settingsFile(), data, 0o644)
}

// unchanged fails if the environment variables require a cluster other than the running one.
func (c cluster) unchanged() error {
	now, err := c.settings()
	if err != nil {
		return err
	}
	want, err := wanted(now)
	if err != nil {
		return err
	}
	if want != now {
		return errors.New("the running cluster has another version or number of nodes: run cluster down first")
	}
	return nil
}

// settingsFile is removed together with the cluster.
func (c cluster) settingsFile() string { return filepath.Join(c.checkout.State(), "settings.json") }
