package main

import (
	"bytes"
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
		of, err := t.typeOf(v)
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

// typesOf are what the objects of Kubernetes among the values are, by the last part of a name.
var typesOf = map[string]reflect.Type{
	"pod":             reflect.TypeFor[corev1.PodSpec](),
	"securityContext": reflect.TypeFor[corev1.PodSecurityContext](),
	"resources":       reflect.TypeFor[corev1.ResourceRequirements](),
}

// typeOf is the schema of a value.
func (t *table) typeOf(v value) (object, error) {
	last := v.Name[strings.LastIndex(v.Name, ".")+1:]
	switch {
	case v.Name == "config":
		of := schemaOf(reflect.TypeFor[settings.Settings]())
		for _, given := range []string{"apiVersion", "kind"} { // by the template
			delete(of["properties"].(object), given)
		}
		return of, nil
	case v.Name == "fence.parameters":
		return closed(t.settable()), nil
	case typesOf[last] != nil:
		of := schemaOf(typesOf[last])
		for _, in := range v.Inserts {
			for _, given := range in.others {
				delete(of["properties"].(object), given)
			}
		}
		return of, nil
	case v.Default.Kind == yaml.MappingNode:
		return object{"type": "object"}, nil
	case v.Default.Tag == "!!bool":
		return object{"type": "boolean"}, nil
	case v.Default.Tag == "!!int":
		return object{"type": "integer", "minimum": 0}, nil
	case v.Default.Tag == "!!str":
		return object{"type": "string", "minLength": min(1, len(v.Default.Value))}, nil
	}
	return nil, fmt.Errorf("chart.yaml: %s has a default of a type that is not known here", v.Name)
}

// settable are the parameters of the fence that no other value sets. One that no policy reads
// would bound nothing.
func (t *table) settable() object {
	properties := object{}
	for name := range t.parameters {
		properties[name] = object{"type": "string"}
	}
	for _, v := range t.Values {
		for _, s := range v.Sets {
			delete(properties, s.Path[len(s.Path)-1])
		}
	}
	return properties
}

// schemaOf is the schema of what JSON makes of a type of the settings. Of types of Kubernetes it
// has the names of their fields, and leaves what is in those to the API server.
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
		properties := object{}
		addFields(t, properties)
		return closed(properties)
	default:
		return object{"type": "integer"}
	}
}

// addFields adds the fields of a struct to the properties of an object.
func addFields(t reflect.Type, properties object) {
	own := strings.HasPrefix(t.PkgPath(), "goless.io/")
	for field := range t.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case name == "" && field.Anonymous:
			addFields(field.Type, properties)
		case own:
			properties[name] = schemaOf(field.Type)
		default:
			properties[name] = object{}
		}
	}
}
