package plane

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// installed are the kinds in deploy/ that have a meaning without nodes: definitions, and
// permissions of the operator.
var installed = []string{
	"Namespace", "CustomResourceDefinition", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding",
	"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding",
	"Deployment", // of the operator, which never runs; the policies refer to its images
}

// images is the registry of images, which are never pulled.
const images = "example.com/"

// Install creates the objects of those kinds in deploy/ that do not exist, and waits until
// Functions can be created.
func (p *Plane) Install(ctx context.Context) error {
	c, err := client.New(p.Config, client.Options{})
	if err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(p.repo, "deploy", "*.yaml"))
	if err != nil || len(files) == 0 {
		return errors.Join(err, fmt.Errorf("no files in %s", filepath.Join(p.repo, "deploy")))
	}
	for _, file := range files {
		objects, err := read(file)
		if err != nil {
			return err
		}
		for _, object := range objects {
			if !slices.Contains(installed, object.GetKind()) {
				continue
			}
			if err := c.Create(ctx, object); err != nil && !apierrors.IsAlreadyExists(err) {
				return fmt.Errorf("creating %s %s: %w", object.GetKind(), object.GetName(), err)
			}
		}
	}
	return p.awaitFunctions(ctx)
}

// awaitFunctions waits until the API server serves Functions.
func (p *Plane) awaitFunctions(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion("goless.io/v1beta1")
	list.SetKind("FunctionList")
	for {
		c, err := client.New(p.Config, client.Options{})
		if err != nil {
			return err
		}
		if err = c.List(ctx, list); err == nil {
			return nil
		}
		if !meta.IsNoMatchError(err) && !apierrors.IsNotFound(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the API server never served Functions: %w", err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// read reads all objects of a file.
func read(file string) (objects []*unstructured.Unstructured, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	text = bytes.ReplaceAll(text, []byte("ko://"), []byte(images))
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	for {
		object := &unstructured.Unstructured{}
		switch err := decoder.Decode(&object.Object); {
		case errors.Is(err, io.EOF):
			return objects, nil
		case err != nil:
			return nil, fmt.Errorf("reading %s: %w", file, err)
		case len(object.Object) > 0:
			objects = append(objects, object)
		}
	}
}
