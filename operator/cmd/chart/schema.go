package main

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"goless.io/operator/internal/settings"
)

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
func (t *table) schema() ([]byte, error) {
	root := closed(map[string]*schema{"global": {Type: "object"}}) // Helm adds global to subcharts
	root.Version = "http://json-schema.org/draft-07/schema#"
	for _, v := range t.Values {
		parent, keys := root, strings.Split(v.Name, ".")
		for _, key := range keys[:len(keys)-1] {
			if parent.Properties[key] == nil {
				parent.Properties[key] = closed(map[string]*schema{})
			}
			parent = parent.Properties[key]
		}
		of, err := t.schemaOfValue(v)
		if err != nil {
			return nil, err
		}
		of.Description = v.About
		parent.Properties[keys[len(keys)-1]] = of
	}
	text, err := json.MarshalIndent(root, "", "  ")
	return append(text, '\n'), err
}

// kubernetesTypes contains the Kubernetes types of values, by the last part of the value's name.
var kubernetesTypes = map[string]reflect.Type{
	"pod":             reflect.TypeFor[corev1.PodSpec](),
	"securityContext": reflect.TypeFor[corev1.PodSecurityContext](),
	"resources":       reflect.TypeFor[corev1.ResourceRequirements](),
}

// schemaOfValue returns the schema of a value.
func (t *table) schemaOfValue(v value) (*schema, error) {
	last := v.Name[strings.LastIndex(v.Name, ".")+1:]
	switch {
	case v.Name == "config":
		of := schemaOfType(reflect.TypeFor[settings.Settings]())
		delete(of.Properties, "apiVersion") // the template sets them
		delete(of.Properties, "kind")
		return of, nil
	case v.Name == "accessPolicy.parameters":
		return closed(t.settableParameters()), nil
	case kubernetesTypes[last] != nil:
		of := schemaOfType(kubernetesTypes[last])
		for _, in := range v.Inserts {
			for _, given := range in.given {
				delete(of.Properties, given)
			}
		}
		return of, nil
	case v.Default.Kind == yaml.MappingNode:
		return &schema{Type: "object"}, nil
	case v.Default.Tag == "!!bool":
		return &schema{Type: "boolean"}, nil
	case v.Default.Tag == "!!int":
		return &schema{Type: "integer", Minimum: new(0)}, nil
	case v.Default.Tag == "!!str": // may be empty only if the default is
		return &schema{Type: "string", MinLength: new(min(1, len(v.Default.Value)))}, nil
	}
	return nil, fmt.Errorf("chart.yaml: %s has a default of a type that is not known here", v.Name)
}

// settableParameters returns the parameters of the access policies that no other value sets. Other
// names are errors, because no policy would read them.
func (t *table) settableParameters() map[string]*schema {
	properties := map[string]*schema{}
	for name := range t.parameters {
		properties[name] = &schema{Type: "string"}
	}
	for _, v := range t.Values {
		for _, s := range v.Sets {
			delete(properties, s.Path[len(s.Path)-1])
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
