package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"goless.io/operator/internal/settings"
)

// values is values.yaml: all defaults, with what they are about.
func (t *table) values() ([]byte, error) {
	root := &yaml.Node{Kind: yaml.MappingNode}
	for i := range t.Values {
		v := &t.Values[i]
		parent, keys := root, strings.Split(v.Name, ".")
		for _, key := range keys[:len(keys)-1] {
			parent = child(parent, key)
		}
		key := &yaml.Node{Kind: yaml.ScalarNode, Value: keys[len(keys)-1], HeadComment: comment(v.About)}
		parent.Content = append(parent.Content, key, &v.Default)
	}
	var b bytes.Buffer
	encoder := yaml.NewEncoder(&b)
	encoder.SetIndent(2)
	err := encoder.Encode(root)
	return b.Bytes(), err
}

// child is the mapping of a key, which it makes where there is none.
func child(parent *yaml.Node, key string) *yaml.Node {
	if node := field(parent, key); node != nil {
		return node
	}
	node := &yaml.Node{Kind: yaml.MappingNode}
	parent.Content = append(parent.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: key}, node)
	return node
}

func comment(text string) string {
	if text == "" {
		return ""
	}
	return "# " + text
}

// object is a JSON schema, or a part of one.
type object = map[string]any

// schema is values.schema.json: values are of the types of their defaults, and those of
// config are the settings of the operator. What it does not name is a typing mistake.
func (t *table) schema() ([]byte, error) {
	root := closed(object{})
	root["$schema"] = "http://json-schema.org/draft-07/schema#"
	for _, v := range t.Values {
		parent, keys := root, strings.Split(v.Name, ".")
		for _, key := range keys[:len(keys)-1] {
			properties := parent["properties"].(object)
			if properties[key] == nil {
				properties[key] = closed(object{})
			}
			parent = properties[key].(object)
		}
		of, err := typeOf(v)
		if err != nil {
			return nil, err
		}
		if v.About != "" {
			of["description"] = v.About
		}
		parent["properties"].(object)[keys[len(keys)-1]] = of
	}
	root["properties"].(object)["global"] = object{"type": "object"} // Helm adds it to charts within charts
	text, err := json.MarshalIndent(root, "", "  ")
	return append(text, '\n'), err
}

// closed is an object without other fields.
func closed(properties object) object {
	return object{"type": "object", "additionalProperties": false, "properties": properties}
}

// typeOf is the schema of a value.
func typeOf(v value) (object, error) {
	if v.Name == "config" {
		of := schemaOf(reflect.TypeFor[settings.Settings]())
		for _, given := range []string{"apiVersion", "kind"} { // by the template
			delete(of["properties"].(object), given)
		}
		return of, nil
	}
	switch {
	case v.Default.Kind == yaml.MappingNode:
		return object{"type": "object"}, nil
	case v.Default.Tag == "!!bool":
		return object{"type": "boolean"}, nil
	case v.Default.Tag == "!!int":
		return object{"type": "integer", "minimum": 0}, nil
	case v.Default.Tag == "!!str":
		return object{"type": "string", "minLength": 1}, nil
	}
	return nil, fmt.Errorf("chart.yaml: %s has a default of a type that is not known here", v.Name)
}

// schemaOf is the schema of what JSON makes of a type of the settings. Types of Kubernetes
// are left to the operator, which refuses what it does not know.
func schemaOf(t reflect.Type) object {
	switch t {
	case reflect.TypeFor[metav1.Duration]():
		return object{"type": "string", "pattern": `^([0-9]+(\.[0-9]+)?(ns|us|ms|s|m|h))+$`}
	case reflect.TypeFor[resource.Quantity]():
		return object{"type": []string{"string", "number"}}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return schemaOf(t.Elem())
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.String:
		return object{"type": "string"}
	case reflect.Slice:
		return object{"type": "array", "items": schemaOf(t.Elem())}
	case reflect.Struct:
		if !strings.HasPrefix(t.PkgPath(), "goless.io/") {
			return object{"type": "object"}
		}
		properties := object{}
		for field := range t.Fields() {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			properties[name] = schemaOf(field.Type)
		}
		return closed(properties)
	default:
		return object{"type": "integer"}
	}
}
