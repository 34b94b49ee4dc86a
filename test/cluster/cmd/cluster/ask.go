package main

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"goless.io/test/cluster/internal/node"
)

// condition contains the fields of a node's condition that the probes read.
type condition struct{ Type, Status, Message string }

// nodeReady returns nil when the node with this name is ready for pods. It asks the API server of
// the first node.
func nodeReady(ctx context.Context, first node.Node, name string) error {
	var answer struct {
		Status struct{ Conditions []condition }
	}
	if err := askAPI(ctx, first, "/api/v1/nodes/"+name, &answer); err != nil {
		return err
	}
	conditions := answer.Status.Conditions
	i := slices.IndexFunc(conditions, func(c condition) bool { return c.Type == "Ready" })
	switch {
	case i < 0:
		return fmt.Errorf("node %s has no condition Ready", name)
	case conditions[i].Status != "True":
		return fmt.Errorf("node %s: %s", name, conditions[i].Message)
	}
	return nil
}

// askAPI calls the API server on the machine's loopback, as a user would.
func askAPI(ctx context.Context, n node.Node, path string, answer any) error {
	config, err := n.TLSConfig()
	if err != nil {
		return err
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
	return node.Get(ctx, client, n.APIServer()+path, answer)
}
