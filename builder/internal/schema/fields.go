package schema

import (
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"goless.io/builder/handler"
	"goless.io/builder/internal/yamlnode"
)

// dnsLabel matches valid names of Functions and Services.
var dnsLabel = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// CheckFunction returns a *handler.Error, with positions in file, if a Function contains fields that
// the API server or the operator rejects regardless of the settings of the cluster. It checks
// neither the keys of labels and annotations nor repeated keys; CheckRepeated checks the latter.
func CheckFunction(file string, object *yaml.Node) error {
	root, version := functionSchema()
	c := &fieldChecker{file: file}
	name, isText := c.checkHead(version, object)
	switch {
	case !isText:
	case !dnsLabel.MatchString(name.Value):
		c.report(name, "metadata.name must have at most 63 lower case letters, digits and -, and start and end with a letter or a digit")
	case name.Value[0] <= '9' && yamlnode.At(object, "spec", "service").Kind == 0:
		c.report(name, "metadata.name starts with a digit, which is invalid for the name of a Service; set spec.service")
	}
	c.check(root, "", object)
	c.checkTogether(yamlnode.Field(object, "spec"))
	return c.err()
}

// CheckOther returns a *handler.Error, with positions in file, if the kind of an object that is not a
// Function is unknown, or if the object contains fields that the API server rejects.
func CheckOther(file string, object *yaml.Node) error {
	c := &fieldChecker{file: file}
	kind := yamlnode.Field(object, "kind")
	d, known := otherDefinitions()[kind.Value]
	switch {
	case kind.Value == "":
		c.report(placeOf(kind, object), "kind is missing")
	case !known:
		kinds := append(slices.Sorted(maps.Keys(otherDefinitions())), FunctionKind)
		c.report(kind, fmt.Sprintf("unknown kind %s, goless.io has: %s", kind.Value, strings.Join(kinds, ", ")))
	default:
		if err := CheckRepeated(file, object); err != nil {
			return err
		}
		c.checkHead(d.version, object)
		c.check(d.root, "", object)
	}
	return c.err()
}

// CheckRepeated returns an error if a mapping in an object contains a key twice.
func CheckRepeated(file string, object *yaml.Node) error {
	if key, first := repeated(object); key != nil {
		return handler.NewError(file, key.Line, key.Column, fmt.Sprintf("duplicate %s, the first is in line %d; remove one", key.Value, first))
	}
	return nil
}

// repeated returns the first key that a mapping contains twice, which the API server rejects, and
// the line of its first occurrence. It returns nil if there is none.
func repeated(node *yaml.Node) (key *yaml.Node, first int) {
	lines := map[string]int{}
	for i, child := range node.Content {
		if node.Kind == yaml.MappingNode && i%2 == 0 {
			if line, ok := lines[child.Value]; ok {
				return child, line
			}
			lines[child.Value] = child.Line
		}
		if key, first := repeated(child); key != nil {
			return key, first
		}
	}
	return nil, 0
}

// A fieldChecker collects errors in the fields of an object.
type fieldChecker struct {
	file  string
	found []handler.Diagnostic
}

// err returns the collected errors, or nil.
func (c *fieldChecker) err() error {
	if len(c.found) == 0 {
		return nil
	}
	slices.SortFunc(c.found, handler.Diagnostic.Compare)
	return &handler.Error{Diagnostics: c.found}
}

// checkHead checks the apiVersion of an object and whether its name is a string.
func (c *fieldChecker) checkHead(version string, object *yaml.Node) (name *yaml.Node, isText bool) {
	if written := yamlnode.Field(object, "apiVersion"); written.Value != version {
		c.report(written, fmt.Sprintf("unknown apiVersion %s, want %s", written.Value, version))
	}
	name = yamlnode.Field(yamlnode.Field(object, "metadata"), "name")
	switch {
	case name.Kind == yaml.MappingNode, name.Kind == yaml.SequenceNode: // such as {{ .Values.name }}
		c.report(name, "metadata.name must be a string")
	case name.Value == "":
		c.report(placeOf(name, object), "metadata.name is missing")
	case kindOf(name) != "string":
		c.report(name, fmt.Sprintf("metadata.name must be a string; write %q", name.Value))
	default:
		return name, true
	}
	return name, false
}

// placeOf returns the node of a value, or the object if the value is missing.
func placeOf(value, object *yaml.Node) *yaml.Node {
	if value.Kind == 0 {
		return object
	}
	return value
}

func (c *fieldChecker) report(at *yaml.Node, message string) {
	c.found = append(c.found, handler.NewDiagnostic(c.file, at.Line, at.Column, message))
}

// check checks the value of the field at a path, which is empty for the whole object.
func (c *fieldChecker) check(s *schema, path string, value *yaml.Node) {
	value = yamlnode.Resolved(value)
	kind := kindOf(value)
	switch {
	case kind == "null": // like a missing field
	case s.IntOrString && (kind == "integer" || kind == "string"), kind == s.Type, s.Type == "number" && kind == "integer":
		found := len(c.found)
		c.checkValue(s, kind, path, value)
		if len(c.found) == found { // rules apply only to values that are otherwise valid
			c.checkRules(s, path, value)
		}
	case s.IntOrString:
		c.report(value, notQuantity(path, kind, value))
	case s.Type != "":
		c.report(value, fmt.Sprintf("%s must be of type %s, got %s", path, s.Type, quotedValue(kind, value)))
	}
}

// checkValue checks a value of the right type.
func (c *fieldChecker) checkValue(s *schema, kind, path string, value *yaml.Node) {
	switch kind {
	case "object":
		c.checkObject(s, path, value)
	case "array":
		c.checkItems(s, path, value)
	case "integer", "number":
		number := numberOf(value)
		switch {
		case s.Minimum != nil && number < *s.Minimum:
			c.report(value, fmt.Sprintf("%s must be at least %g", path, *s.Minimum))
		case s.Maximum != nil && number > *s.Maximum:
			c.report(value, fmt.Sprintf("%s must be at most %g", path, *s.Maximum))
		case s.Format == "int32" && number > math.MaxInt32:
			c.report(value, fmt.Sprintf("%s must be at most %d", path, math.MaxInt32))
		}
	case "string":
		c.checkText(s, path, value)
	}
}

func (c *fieldChecker) checkItems(s *schema, path string, array *yaml.Node) {
	if len(array.Content) < s.MinItems {
		c.report(array, fmt.Sprintf("%s must have at least %d items", path, s.MinItems))
	}
	if s.MaxItems != nil && len(array.Content) > *s.MaxItems {
		c.report(array, fmt.Sprintf("%s must have at most %d items", path, *s.MaxItems))
	}
	seen := map[string]bool{}
	for i, item := range array.Content {
		at := fmt.Sprintf("%s[%d]", path, i)
		c.check(s.Items, at, item)
		key := s.keyOf(item)
		if key != "" && seen[key] {
			c.report(item, fmt.Sprintf("duplicate %s: %s", at, key))
		}
		seen[key] = true
	}
}

// checkRules checks the rules of a value.
func (c *fieldChecker) checkRules(s *schema, path string, value *yaml.Node) {
	for _, r := range s.Rules {
		switch {
		case r.holds(valueOf(s, value)):
		case path == "": // rules of whole objects are about their names
			c.report(yamlnode.Field(yamlnode.Field(value, "metadata"), "name"), r.Message)
		default:
			c.report(value, fmt.Sprintf("%s: %s", path, r.Message))
		}
	}
}

// checkObject checks a mapping. All fields must be in the schema if it defines any.
func (c *fieldChecker) checkObject(s *schema, path string, object *yaml.Node) {
	for _, name := range s.Required {
		if value := yamlnode.Field(object, name); value.Kind == 0 || kindOf(value) == "null" {
			c.report(placeOf(value, object), fmt.Sprintf("%s is missing", join(path, name)))
		}
	}
	if s.MaxEntries != nil && len(object.Content)/2 > *s.MaxEntries {
		c.report(object, fmt.Sprintf("%s must have at most %d entries", path, *s.MaxEntries))
	}
	for i := 0; i+1 < len(object.Content); i += 2 {
		key, value := object.Content[i], object.Content[i+1]
		known := s.Properties[key.Value]
		switch {
		case known != nil:
			c.check(known, join(path, key.Value), value)
		case s.Values != nil:
			c.check(s.Values, join(path, key.Value), value)
		case len(s.Properties) > 0:
			c.report(key, fmt.Sprintf("unknown field %s, want one of: %s", join(path, key.Value), strings.Join(slices.Sorted(maps.Keys(s.Properties)), ", ")))
		}
	}
}

func (c *fieldChecker) checkText(s *schema, path string, text *yaml.Node) {
	length := utf8.RuneCountInString(text.Value)
	switch {
	case length < s.MinLength:
		c.report(text, fmt.Sprintf("%s must have at least %d characters", path, s.MinLength))
	case s.MaxLength != nil && length > *s.MaxLength:
		c.report(text, fmt.Sprintf("%s must have at most %d characters", path, *s.MaxLength))
	case len(s.Enum) > 0 && !slices.Contains(s.Enum, text.Value):
		c.report(text, fmt.Sprintf("%s must be one of: %s", path, strings.Join(s.Enum, ", ")))
	case s.IntOrString && s.Pattern != "" && !regexp.MustCompile(s.Pattern).MatchString(text.Value):
		c.report(text, notQuantity(path, "string", text))
	case s.Pattern != "" && !regexp.MustCompile(s.Pattern).MatchString(text.Value):
		c.report(text, fmt.Sprintf("%s must match %s", path, s.Pattern))
	}
}

// oldBools matches the unquoted words that tools which apply YAML interpret as true and false, like
// YAML 1.1.
var oldBools = regexp.MustCompile(`^([yY]|[yY]es|YES|[oO]n|ON|[nN]|[nN]o|NO|[oO]ff|OFF)$`)

// kindOf returns the name that a schema uses for the type of a value, such as "string", or "null".
func kindOf(value *yaml.Node) string {
	switch {
	case value.Kind == yaml.MappingNode:
		return "object"
	case value.Kind == yaml.SequenceNode:
		return "array"
	case value.Tag == "!!null":
		return "null"
	case value.Tag == "!!bool", value.Style == 0 && oldBools.MatchString(value.Value):
		return "boolean"
	case value.Tag == "!!int", value.Tag == "!!float" && numberOf(value) == math.Trunc(numberOf(value)):
		return "integer"
	case value.Tag == "!!float":
		return "number"
	}
	return "string"
}

func numberOf(value *yaml.Node) (number float64) {
	_ = value.Decode(&number) // its tag is that of a number
	return number
}

// notQuantity returns the message for a value that is not a quantity. The API server also rejects
// fractions without quotes.
func notQuantity(path, kind string, value *yaml.Node) string {
	return fmt.Sprintf("%s must be a quantity such as 100m or 128Mi, got %s", path, quotedValue(kind, value))
}

// quotedValue describes a value of the wrong type.
func quotedValue(kind string, value *yaml.Node) string {
	switch {
	case kind == "string":
		return strconv.Quote(value.Value)
	case value.Kind == yaml.ScalarNode:
		return value.Value
	}
	return "an " + kind
}

// join returns the path of a field in the object at path.
func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
