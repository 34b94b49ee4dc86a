package main

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"goless.io/operator/internal/settings"
)

// A generator creates the schema.
type generator struct {
	// parameters contains the parameters of the access policies, and whether the chart leaves them to
	// accessPolicy.parameters.
	parameters map[string]bool
	// podFields contains the fields of the pod spec by Deployment. The value pod cannot set them.
	podFields map[string]map[string]any
}

// A schema is a JSON schema. Without a type it allows everything.
type schema struct {
	Version              string             `json:"$schema,omitempty"`
	AdditionalProperties *bool              `json:"additionalProperties,omitempty"`
	Description          string             `json:"description,omitempty"`
	Items                *schema            `json:"items,omitempty"`
	MinLength            *int               `json:"minLength,omitempty"`
	Minimum              *int               `json:"minimum,omitempty"`
	Pattern              string             `json:"pattern,omitempty"`
	Properties           map[string]*schema `json:"properties,omitzero"`
	Type                 any                `json:"type,omitempty"` // a name or a list of names
}

// closed returns the schema of an object with only the given properties.
func closed(properties map[string]*schema) *schema {
	return &schema{Type: "object", AdditionalProperties: new(false), Properties: properties}
}

// schema returns values.schema.json. The type of a value is that of its default; the type of config
// is the settings of the operator. Unknown values are errors.
func (g *generator) schema(values *yaml.Node) ([]byte, error) {
	root, err := g.group("", values)
	if err != nil {
		return nil, err
	}
	root.Version = "http://json-schema.org/draft-07/schema#"
	root.Properties["global"] = &schema{Type: "object"} // Helm adds global to subcharts
	text, err := json.MarshalIndent(root, "", "  ")
	return append(text, '\n'), err
}

// group returns the schema of a mapping of values. A mapping with comments is a group of values;
// another mapping is a value.
func (g *generator) group(path string, values *yaml.Node) (*schema, error) {
	properties := map[string]*schema{}
	for i := 0; i < len(values.Content); i += 2 {
		key, value := values.Content[i], values.Content[i+1]
		name := path + key.Value
		var of *schema
		var err error
		if hasComments(value) {
			of, err = g.group(name+".", value)
		} else {
			of, err = g.value(name, key, value)
		}
		if err != nil {
			return nil, err
		}
		properties[key.Value] = of
	}
	return closed(properties), nil
}

// hasComments reports whether a key of a mapping, or of a mapping in it, has a comment above it.
func hasComments(mapping *yaml.Node) bool {
	return mapping.Kind == yaml.MappingNode && slices.ContainsFunc(mapping.Content, func(n *yaml.Node) bool {
		return n.HeadComment != "" || hasComments(n)
	})
}

// value returns the schema of a value. Its description is the comment above it.
func (g *generator) value(name string, key, value *yaml.Node) (*schema, error) {
	if key.HeadComment == "" {
		return nil, fmt.Errorf("values.yaml: line %d: %s has no comment", key.Line, name)
	}
	of, err := g.schemaOfValue(name, value)
	if err != nil {
		return nil, err
	}
	of.Description = strings.ReplaceAll(strings.TrimPrefix(key.HeadComment, "# "), "\n# ", " ")
	return of, nil
}

// kubernetesTypes contains the Kubernetes types of values, by the last part of the value's name.
var kubernetesTypes = map[string]reflect.Type{
	"pod":             reflect.TypeFor[corev1.PodSpec](),
	"securityContext": reflect.TypeFor[corev1.PodSecurityContext](),
	"resources":       reflect.TypeFor[corev1.ResourceRequirements](),
}

// schemaOfValue returns the schema of a value with a default.
func (g *generator) schemaOfValue(name string, value *yaml.Node) (*schema, error) {
	component, last, _ := strings.Cut(name, ".")
	switch {
	case name == "config":
		of := schemaOfType(reflect.TypeFor[settings.Settings]())
		delete(of.Properties, "apiVersion") // the template sets them
		delete(of.Properties, "kind")
		return of, nil
	case name == "accessPolicy.parameters":
		return closed(g.settableParameters()), nil
	case kubernetesTypes[last] != nil:
		of := schemaOfType(kubernetesTypes[last])
		if last == "pod" {
			for given := range g.podFields["goless-"+component] {
				delete(of.Properties, given)
			}
		}
		return of, nil
	case value.Kind == yaml.MappingNode:
		return &schema{Type: "object"}, nil
	case value.Tag == "!!bool":
		return &schema{Type: "boolean"}, nil
	case value.Tag == "!!int":
		return &schema{Type: "integer", Minimum: new(0)}, nil
	case value.Tag == "!!str": // may be empty only if the default is
		return &schema{Type: "string", MinLength: new(min(1, len(value.Value)))}, nil
	}
	return nil, fmt.Errorf("values.yaml: line %d: %s: unsupported type %s", value.Line, name, value.Tag)
}

// settableParameters returns the parameters of the access policies that no other value sets. Other
// names are errors, because no policy would read them.
func (g *generator) settableParameters() map[string]*schema {
	properties := map[string]*schema{}
	for name, settable := range g.parameters {
		if settable {
			properties[name] = &schema{Type: "string"}
		}
	}
	return properties
}

// schemaOfType returns the schema for the JSON of a type in the settings. For a Kubernetes type it
// contains the names of the fields only; the API server validates the rest.
func schemaOfType(t reflect.Type) *schema {
	switch t {
	case reflect.TypeFor[metav1.Duration]():
		return &schema{Type: "string", Pattern: `^([0-9]+(\.[0-9]+)?(ns|us|ms|s|m|h))+$`}
	case reflect.TypeFor[resource.Quantity]():
		return &schema{Type: []string{"string", "number"}}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return schemaOfType(t.Elem())
	case reflect.Bool:
		return &schema{Type: "boolean"}
	case reflect.String:
		return &schema{Type: "string"}
	case reflect.Slice:
		return &schema{Type: "array", Items: schemaOfType(t.Elem())}
	case reflect.Struct:
		properties := map[string]*schema{}
		addFields(t, properties)
		return closed(properties)
	default:
		return &schema{Type: "integer"}
	}
}

// addFields adds the fields of a struct to the properties of an object.
func addFields(t reflect.Type, properties map[string]*schema) {
	own := strings.HasPrefix(t.PkgPath(), "goless.io/")
	for field := range t.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case name == "" && field.Anonymous:
			addFields(field.Type, properties)
		case own:
			properties[name] = schemaOfType(field.Type)
		default:
			properties[name] = &schema{}
		}
	}
}
