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

// A schema is what the API server checks of a value, as far as it is checked here: of the
// rules in CEL, only those that match a text against an expression.
type schema struct {
	Type        string             `yaml:"type"`
	Properties  map[string]*schema `yaml:"properties"`
	Items       *schema            `yaml:"items"`
	Required    []string           `yaml:"required"`
	Enum        []string           `yaml:"enum"`
	Minimum     *float64           `yaml:"minimum"`
	Maximum     *float64           `yaml:"maximum"`
	MinLength   int                `yaml:"minLength"`
	MaxLength   *int               `yaml:"maxLength"`
	MaxItems    *int               `yaml:"maxItems"`
	Pattern     string             `yaml:"pattern"`
	IntOrString bool               `yaml:"x-kubernetes-int-or-string"`
	Rules       []rule             `yaml:"x-kubernetes-validations"`
}

// A rule is an expression in CEL, and what to say where it does not hold.
type rule struct {
	Rule    string `yaml:"rule"`
	Message string `yaml:"message"`
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
	return &latest.Schema.Root, definition.Spec.Group + "/" + latest.Name
})
