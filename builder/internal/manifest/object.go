package manifest

import (
	"strings"

	"go.yaml.in/yaml/v3"

	"goless.io/builder/handler"
	"goless.io/builder/internal/schema"
	"goless.io/builder/internal/yamlnode"
)

// An Object is an object of goless.io that is not a Function: a trigger or a FunctionClass.
type Object struct {
	// Kind of the object, and Name from its metadata.
	Kind, Name string

	file   string
	object *yaml.Node
}

// isOther reports whether an object that is not a Function has an apiVersion of goless.io.
func isOther(object *yaml.Node) bool {
	return strings.HasPrefix(yamlnode.Field(object, "apiVersion").Value, "goless.io/")
}

func readOther(file string, object *yaml.Node) *Object {
	return &Object{
		Kind:   yamlnode.Field(object, "kind").Value,
		Name:   yamlnode.Field(yamlnode.Field(object, "metadata"), "name").Value,
		file:   file,
		object: object,
	}
}

// CheckFields returns a *handler.Error, with positions in the input, if the kind is unknown or the
// object contains fields that the API server rejects.
func (o *Object) CheckFields() error { return schema.CheckOther(o.file, o.object) }

// CheckFields returns a *handler.Error, with positions in the input, if the YAML of the Function
// contains fields that the API server or the operator rejects regardless of the settings of the
// cluster. It returns nil if the input is not YAML. It does not check the keys of labels and
// annotations.
func (f *Function) CheckFields() error {
	if f.object == nil {
		return nil
	}
	return schema.CheckFunction(f.file, f.object)
}

// Warnings warns about a spec.scratch.size that is too large for the default limit of Goless
// (memory with medium Memory, otherwise ephemeral-storage). A cluster may have another default.
func (f *Function) Warnings() []handler.Diagnostic {
	if f.object == nil {
		return nil
	}
	return schema.Warnings(f.file, f.object)
}
