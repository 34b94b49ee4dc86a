package input

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
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
	return strings.HasPrefix(field(object, "apiVersion").Value, "goless.io/")
}

func readOther(file string, object *yaml.Node) *Object {
	return &Object{
		Kind:   field(object, "kind").Value,
		Name:   field(field(object, "metadata"), "name").Value,
		file:   file,
		object: object,
	}
}

// CheckFields returns a *handler.Error, with positions in the input, if the kind is unknown or the
// object contains fields that the API server rejects.
func (o *Object) CheckFields() error {
	c := &fieldChecker{file: o.file}
	kind := field(o.object, "kind")
	d, known := otherDefinitions()[kind.Value]
	switch {
	case kind.Value == "":
		c.report(placeOf(kind, o.object), "kind is missing")
	case !known:
		kinds := append(slices.Sorted(maps.Keys(otherDefinitions())), functionKind)
		c.report(kind, fmt.Sprintf("unknown kind %s, goless.io has: %s", kind.Value, strings.Join(kinds, ", ")))
	default:
		if err := checkRepeated(o.file, o.object); err != nil {
			return err
		}
		c.checkHead(d.version, o.object)
		c.check(d.root, "", o.object)
	}
	return c.err()
}
