// Command chartschema writes the JSON schema of the values of the Helm chart. The defaults and the
// comments in values.yaml become types and descriptions. The schema of the value config is derived
// from the settings of the operator. The schemas of the values for pods, resources and security
// contexts are derived from the Kubernetes types. So helm rejects unknown and misspelled values.
//
//	chartschema [-deploy DIR] >deploy/chart/values.schema.json
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"regexp"

	"go.yaml.in/yaml/v3"
	appsv1 "k8s.io/api/apps/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
)

func main() {
	log.SetFlags(0)
	deploy := flag.String("deploy", "deploy", "the directory `DIR` with the chart and the files that are rendered from it")
	flag.Parse()
	text, err := generate(*deploy)
	if err == nil {
		_, err = os.Stdout.Write(text)
	}
	if err != nil {
		log.Fatal("chartschema: ", err)
	}
}

// generate returns the schema of the chart in the directory deploy.
func generate(deploy string) ([]byte, error) {
	text, err := os.ReadFile(filepath.Join(deploy, "chart", "values.yaml"))
	if err != nil {
		return nil, err
	}
	var values yaml.Node
	if err := yaml.Unmarshal(text, &values); err != nil {
		return nil, fmt.Errorf("values.yaml: %w", err)
	}
	g := generator{parameters: map[string]bool{}, podFields: map[string]map[string]any{}}
	templates, err := filepath.Glob(filepath.Join(deploy, "chart", "templates", "[0-9]*.yaml"))
	if err != nil {
		return nil, err
	}
	for _, template := range templates {
		name := filepath.Base(template)
		if err := g.readTemplate(deploy, name); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return g.schema(values.Content[0])
}

// policyParameter matches an annotation of a policy binding that is a parameter of an access policy,
// and what follows it: a value that the template sets, or - if an expression adds the rest of the name.
var policyParameter = regexp.MustCompile(`(fence\.goless\.io/[a-z]+(?:-[a-z]+)*)(: \{\{|-)?`)

// readTemplate records the parameters of access policies in a template, and the fields of the pods
// in the file that is rendered from it.
func (g *generator) readTemplate(deploy, name string) error {
	template, err := os.ReadFile(filepath.Join(deploy, "chart", "templates", name))
	if err != nil {
		return err
	}
	for _, match := range policyParameter.FindAllStringSubmatch(string(template), -1) {
		if settable, seen := g.parameters[match[1]]; match[2] != "-" && (!seen || settable) {
			g.parameters[match[1]] = match[2] == ""
		}
	}
	rendered, err := os.ReadFile(filepath.Join(deploy, name))
	if err != nil {
		return err
	}
	for decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(rendered), 4096); ; {
		var object struct {
			appsv1.Deployment

			Spec struct {
				Template struct {
					Spec map[string]any `json:"spec"`
				} `json:"template"`
			} `json:"spec"`
		}
		if err := decoder.Decode(&object); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if object.Kind == "Deployment" {
			g.podFields[object.Name] = object.Spec.Template.Spec
		}
	}
}
