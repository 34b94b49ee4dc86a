package controllers_test

import (
	"os"
	"path/filepath"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"goless.io/trigger/internal/apiservertest"
)

// The API server accepts the examples and knows each of their fields.
func TestExamples(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	files, err := filepath.Glob(filepath.Join(apiservertest.Root, "examples", "triggers", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("found %d examples, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			object := &unstructured.Unstructured{}
			if err == nil {
				err = yaml.UnmarshalStrict(text, &object.Object)
			}
			if err != nil {
				t.Fatal(err)
			}
			object.SetNamespace(namespace)
			if err := cluster.Create(t.Context(), object, client.FieldValidation(metav1.FieldValidationStrict)); err != nil {
				t.Error(err)
			}
		})
	}
}
