package input

import (
	_ "embed"
	"sync"

	"go.yaml.in/yaml/v3"
)

//go:generate cp ../../../deploy/10-crd.yaml crd.yaml

// crd defines Functions for the API server, in its first document.
//
//go:embed crd.yaml
var crd []byte

// A schema is what the API server checks of a value, as far as it is checked here.
type schema struct {
	Type        string             `yaml:"type"`
	Properties  map[string]*schema `yaml:"properties"`
	Values      *schema            `yaml:"additionalProperties"`
	Items       *schema            `yaml:"items"`
	Required    []string           `yaml:"required"`
	Enum        []string           `yaml:"enum"`
	Minimum     *float64           `yaml:"minimum"`
	Maximum     *float64           `yaml:"maximum"`
	MinLength   int                `yaml:"minLength"`
	MaxLength   *int               `yaml:"maxLength"`
	MaxItems    *int               `yaml:"maxItems"`
	Pattern     string             `yaml:"pattern"`
	Format      string             `yaml:"format"`
	ListType    string             `yaml:"x-kubernetes-list-type"`
	ListKeys    []string           `yaml:"x-kubernetes-list-map-keys"`
	IntOrString bool               `yaml:"x-kubernetes-int-or-string"`
	Rules       []*rule            `yaml:"x-kubernetes-validations"`
}

// keyOf returns what no two items of a list may share; empty where all may be the same.
func (s *schema) keyOf(item *yaml.Node) string {
	switch s.ListType {
	case "set":
		return resolved(item).Value
	case "map": // of one key, which is required
		return field(item, s.ListKeys[0]).Value
	}
	return ""
}

// functionSchema returns the schema of Functions and their apiVersion.
var functionSchema = sync.OnceValues(func() (*schema, string) {
	var definition struct {
		Spec struct {
			Group    string `yaml:"group"`
			Versions []struct {
				Name   string `yaml:"name"`
				Schema struct {
					Root schema `yaml:"openAPIV3Schema"`
				} `yaml:"schema"`
			} `yaml:"versions"`
		} `yaml:"spec"`
	}
	if err := yaml.Unmarshal(crd, &definition); err != nil {
		panic(err) // it was embedded
	}
	latest := definition.Spec.Versions[0]
	latest.Schema.Root.Properties["metadata"] = metadataSchema()
	latest.Schema.Root.Rules = nil // they are about metadata.name, which CheckFields checks
	return &latest.Schema.Root, definition.Spec.Group + "/" + latest.Name
})

// metadataSchema returns the schema of the metadata of all objects, which the CRD leaves to the
// API server. The types of those fields are not checked that only the API server writes.
func metadataSchema() *schema {
	text := &schema{Type: "string"}
	fields := map[string]*schema{
		"namespace":    {Type: "string", Pattern: dnsLabel.String()},
		"generateName": text,
		"labels":       {Type: "object", Values: &schema{Type: "string", MaxLength: new(63), Pattern: `^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$`}},
		"annotations":  {Type: "object", Values: text},
	}
	for _, name := range []string{
		"name", "uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp",
		"deletionGracePeriodSeconds", "selfLink", "finalizers", "ownerReferences", "managedFields",
	} {
		fields[name] = &schema{}
	}
	return &schema{Type: "object", Properties: fields}
}
