package docs

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// Objects of the kinds of Goless in the pages have only existing fields, and all required ones.
func TestKinds(t *testing.T) {
	schemas, seen := readSchemas(t), map[string]bool{}
	for _, p := range pages(t) {
		for _, b := range p.Blocks {
			object := map[string]any{}
			if b.Language != "yaml" || yaml.Unmarshal([]byte(b.Text), &object) != nil {
				continue
			}
			kind := fmt.Sprint(object["kind"])
			seen[kind] = true
			for _, wrong := range mistakes(schemas[kind], object, "") { // none for kinds without a schema
				t.Errorf("%s:%d: %s", p.Path, b.Line, wrong)
			}
		}
	}
	if !seen["Function"] || !seen["HTTPTrigger"] {
		t.Errorf("the pages contain objects of the kinds %v, want at least Function and HTTPTrigger", seen)
	}
}

// paragraphBreak matches the line breaks that a description may have: a blank line, and those before a list
// item and around a row of a table.
var paragraphBreak = regexp.MustCompile(`\n\n+|\n([-*] |\|)|\|\n`)

// The descriptions of fields have no line breaks in their sentences: kubectl explain would print them.
func TestDescriptions(t *testing.T) {
	for kind, schema := range readSchemas(t) {
		for path, text := range descriptions(schema, strings.ToLower(kind)) {
			if strings.Contains(paragraphBreak.ReplaceAllString(text, ""), "\n") {
				t.Errorf("the description of %s has a line break in a sentence: %q", path, text)
			}
		}
	}
}

// descriptions returns the descriptions in a schema by the path of the field, which begins with path.
func descriptions(schema map[string]any, path string) map[string]string {
	all := map[string]string{}
	if text, ok := schema["description"].(string); ok {
		all[path] = text
	}
	properties, _ := schema["properties"].(map[string]any)
	for name, property := range properties {
		if property, ok := property.(map[string]any); ok {
			maps.Copy(all, descriptions(property, path+"."+name))
		}
	}
	for _, name := range []string{"items", "additionalProperties"} {
		if items, ok := schema[name].(map[string]any); ok {
			maps.Copy(all, descriptions(items, path+"[]"))
		}
	}
	return all
}

// readSchemas returns the schemas of the kinds of Goless, by kind.
func readSchemas(t *testing.T) map[string]map[string]any {
	t.Helper()
	all := map[string]map[string]any{}
	for _, name := range []string{"10-crd.yaml", "15-triggers-crd.yaml"} {
		text, err := os.ReadFile(filepath.Join(repo, "deploy", name))
		if err != nil {
			t.Fatal(err)
		}
		for document := range strings.SplitSeq(string(text), "\n---\n") {
			var crd struct {
				Spec struct {
					Names    struct{ Kind string }
					Versions []struct {
						Schema struct{ OpenAPIV3Schema map[string]any }
					}
				}
			}
			if err := yaml.Unmarshal([]byte(document), &crd); err != nil {
				t.Fatal(err)
			}
			for _, version := range crd.Spec.Versions {
				all[crd.Spec.Names.Kind] = version.Schema.OpenAPIV3Schema
			}
		}
	}
	return all
}

// mistakes returns the fields of a value that its schema does not have, and the missing
// required ones.
func mistakes(schema map[string]any, value any, path string) (all []string) {
	switch value := value.(type) {
	case []any:
		items, _ := schema["items"].(map[string]any)
		for i, item := range value {
			all = append(all, mistakes(items, item, fmt.Sprintf("%s[%d]", path, i))...)
		}
	case map[string]any:
		if properties, closed := schema["properties"].(map[string]any); closed {
			all = append(missing(schema, value, path), ofFields(properties, value, path)...)
		}
	}
	return all
}

func missing(schema, value map[string]any, path string) (all []string) {
	required, _ := schema["required"].([]any)
	for _, name := range required {
		if _, ok := value[fmt.Sprint(name)]; !ok {
			all = append(all, fmt.Sprintf("the field %s.%s is missing", path, name))
		}
	}
	return all
}

func ofFields(properties, value map[string]any, path string) (all []string) {
	for name, field := range value {
		property, ok := properties[name].(map[string]any)
		if !ok {
			all = append(all, fmt.Sprintf("unknown field %s.%s", path, name))
			continue
		}
		all = append(all, mistakes(property, field, path+"."+name)...)
	}
	return all
}
