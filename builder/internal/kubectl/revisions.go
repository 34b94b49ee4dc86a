package kubectl

import (
	"context"
	"errors"
	"fmt"
	"os"

	"goless.io/builder/handler"
	"goless.io/builder/internal/revisions"
)

// History returns a Function with its recorded revisions. Their sources are not read.
func (k *Client) History(ctx context.Context, name string) (*revisions.History, error) {
	function, err := k.Output(ctx, nil, "get", kind, name, "--output=json", "--show-managed-fields")
	if err != nil {
		return nil, err
	}
	records, err := k.Output(ctx, nil, "get", "controllerrevisions.apps", "--selector=goless.io/function="+name, "--output=json")
	if err != nil {
		return nil, err
	}
	return revisions.Parse(function, records)
}

// ReadSource reads the source of a recorded revision.
func (k *Client) ReadSource(ctx context.Context, r *revisions.Revision) error {
	var object struct {
		Data map[string]string `json:"data"`
	}
	if err := k.decode(ctx, &object, "get", "configmaps", r.ConfigMap); err != nil {
		return fmt.Errorf("reading the source of %s: %w", r, err)
	}
	return r.SetSource(object.Data[handler.Filename])
}

// Patch applies a JSON patch to a Function.
func (k *Client) Patch(ctx context.Context, name string, patch []byte, manager string) error {
	file, err := os.CreateTemp("", "goless-patch-*.json") // a source may be longer than an argument may be
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(file.Name()) }()
	_, err = file.Write(patch)
	if err := errors.Join(err, file.Close()); err != nil {
		return err
	}
	_, err = k.Output(ctx, nil, "patch", kind, name, "--type=json", "--patch-file="+file.Name(), "--field-manager="+manager)
	return err
}
