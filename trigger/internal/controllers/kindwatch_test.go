package controllers_test

import (
	"errors"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/yaml"

	"goless.io/trigger/api/v1alpha1"
	"goless.io/trigger/internal/controllers"
)

const widgets = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Widget, plural: widgets}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
`

// An API that is installed or removed after the start is detected and stops the manager.
func TestChange(t *testing.T) {
	t.Parallel()
	kind := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}
	definition := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(widgets), &definition.Object); err != nil {
		t.Fatal(err)
	}
	become := func(has bool, change func()) {
		t.Helper()
		ended := make(chan error, 1)
		watch := controllers.KindWatch{
			Discovery: discovery.NewDiscoveryClient(apiServer.RESTClient()), Pause: 20 * time.Millisecond,
			Had: map[schema.GroupVersionKind]bool{kind: !has, v1alpha1.GroupVersion.WithKind("CronTrigger"): true},
		}
		go func() { ended <- watch.Start(t.Context()) }()
		change()
		if err := <-ended; !errors.Is(err, controllers.ErrChanged) {
			t.Fatalf("it ended with %v", err)
		}
	}
	become(true, func() { create(t, definition) })
	become(false, func() {
		if err := cluster.Delete(t.Context(), definition); err != nil {
			t.Fatal(err)
		}
	})
}
