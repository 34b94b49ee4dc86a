// Package schema checks the fields of Functions and other objects of goless.io like the API server
// does, with the schemas and the CEL rules of their CustomResourceDefinitions, but without a cluster.
package schema

import (
	"bytes"
	_ "embed"
	"errors"
	"io"
	"iter"
	"sync"

	"go.yaml.in/yaml/v3"

	"goless.io/builder/internal/yamlnode"
)

//go:generate cp ../../../deploy/10-crd.yaml crd.yaml
//go:generate cp ../../../deploy/15-triggers-crd.yaml triggers-crd.yaml

// CustomResourceDefinitions of goless.io. The first one is Function.
var (
	//go:embed crd.yaml
	crd []byte

	//go:embed triggers-crd.yaml
	triggersCRD []byte
)

// A schema is the part of an OpenAPI schema that is checked here.
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
	MinItems    int                `yaml:"minItems"`
	MaxItems    *int               `yaml:"maxItems"`
	MaxEntries  *int               `yaml:"maxProperties"`
	Pattern     string             `yaml:"pattern"`
	Format      string             `yaml:"format"`
	ListType    string             `yaml:"x-kubernetes-list-type"`
	ListKeys    []string           `yaml:"x-kubernetes-list-map-keys"`
	IntOrString bool               `yaml:"x-kubernetes-int-or-string"`
	Rules       []*rule            `yaml:"x-kubernetes-validations"`
}

// keyOf returns the key of an item, which must be unique in the list, or "" if items need not be
// unique.
func (s *schema) keyOf(item *yaml.Node) string {
	switch s.ListType {
	case "set":
		return yamlnode.Resolved(item).Value
	case "map": // the maps in the schema have one key, which is required
		return yamlnode.Field(item, s.ListKeys[0]).Value
	}
	return ""
}

// A definition describes a kind.
type definition struct {
	kind, version string
	root          *schema
}

// definitionsIn returns the definitions in a file of CustomResourceDefinitions.
func definitionsIn(crds []byte) iter.Seq[definition] {
	return func(yield func(definition) bool) {
		for decoder := yaml.NewDecoder(bytes.NewReader(crds)); ; {
			var crd struct {
				Spec struct {
					Group string `yaml:"group"`
					Names struct {
						Kind string `yaml:"kind"`
					} `yaml:"names"`
					Versions []struct {
						Name   string `yaml:"name"`
						Schema struct {
							Root schema `yaml:"openAPIV3Schema"`
						} `yaml:"schema"`
					} `yaml:"versions"`
				} `yaml:"spec"`
			}
			if err := decoder.Decode(&crd); errors.Is(err, io.EOF) {
				return
			} else if err != nil {
				panic(err) // the file is embedded
			}
			latest := &crd.Spec.Versions[0]
			root := &latest.Schema.Root
			root.Properties["metadata"] = metadataSchema()
			if !yield(definition{crd.Spec.Names.Kind, crd.Spec.Group + "/" + latest.Name, root}) {
				return
			}
		}
	}
}

// FunctionKind is the kind of Functions.
const FunctionKind = "Function"

// FunctionVersion returns the apiVersion of Functions.
func FunctionVersion() string {
	_, version := functionSchema()
	return version
}

// functionSchema returns the schema of Functions and their apiVersion.
var functionSchema = sync.OnceValues(func() (*schema, string) {
	for d := range definitionsIn(crd) {
		d.root.Rules = nil // these rules are about metadata.name, which CheckFunction checks
		return d.root, d.version
	}
	panic("crd.yaml contains no CustomResourceDefinition")
})

// otherDefinitions returns the definitions of all kinds of goless.io except Function, by kind.
var otherDefinitions = sync.OnceValue(func() map[string]definition {
	others := map[string]definition{}
	for _, crds := range [][]byte{crd, triggersCRD} {
		for d := range definitionsIn(crds) {
			if d.kind != FunctionKind {
				others[d.kind] = d
			}
		}
	}
	return others
})

// metadataSchema returns the schema of the metadata of all objects, which the CRD does not contain.
// It does not check the types of fields that only the API server writes.
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
