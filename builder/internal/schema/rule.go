package schema

import (
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"go.yaml.in/yaml/v3"

	"goless.io/builder/internal/yamlnode"
)

// A rule is a CEL expression with the message for values that violate it.
type rule struct {
	Rule    string `yaml:"rule"`
	Message string `yaml:"message"`

	compile sync.Once
	program cel.Program
}

// rules is the environment for compiling rules. The schema has already checked the types of values.
var rules = sync.OnceValue(func() *cel.Env {
	lower := func(text ref.Val) ref.Val {
		return types.String(strings.Map(func(r rune) rune {
			if 'A' <= r && r <= 'Z' {
				return r + 'a' - 'A'
			}
			return r
		}, string(text.(types.String))))
	}
	env, err := cel.NewEnv(
		cel.Variable("self", cel.DynType),
		cel.Function("lowerAscii", cel.MemberOverload("string_lower_ascii", []*cel.Type{cel.StringType}, cel.StringType, cel.UnaryBinding(lower))),
	)
	if err != nil {
		panic(err) // does not depend on input
	}
	return env
})

// compiled reports whether the rule can be compiled. A rule cannot be compiled if it uses features
// of the API server, such as the previous value or functions of Kubernetes.
func (r *rule) compiled() bool {
	r.compile.Do(func() {
		expression, issues := rules().Compile(r.Rule)
		if issues.Err() != nil {
			return
		}
		if program, err := rules().Program(expression); err == nil {
			r.program = program
		}
	})
	return r.program != nil
}

// holds reports whether a value satisfies the rule. It reports true for a value that contains a
// wrong type, because that is already reported, and for a rule that cannot be compiled.
func (r *rule) holds(self any) bool {
	if !r.compiled() {
		return true
	}
	kept, _, err := r.program.Eval(map[string]any{"self": self})
	return err != nil || kept == types.True
}

// valueOf converts a value to the form that the rules of its schema expect: without null fields,
// and with field names that are CEL identifiers.
func valueOf(s *schema, value *yaml.Node) any {
	value = yamlnode.Resolved(value)
	if s == nil {
		s = &schema{} // schema of unchecked items, such as those of metadata.ownerReferences
	}
	switch kindOf(value) {
	case "object":
		return fieldsOf(s, value)
	case "array":
		var items []any
		for _, item := range value.Content {
			items = append(items, valueOf(s.Items, item))
		}
		return items
	case "integer":
		return int64(numberOf(value))
	case "number":
		return numberOf(value)
	case "boolean":
		return value.Value == "true"
	}
	return value.Value
}

// fieldsOf returns the fields or the entries of an object.
func fieldsOf(s *schema, value *yaml.Node) map[string]any {
	fields := map[string]any{}
	for name, property := range s.Properties {
		if v := yamlnode.Field(value, name); v.Kind != 0 && kindOf(v) != "null" {
			fields[strings.ReplaceAll(name, "-", "__dash__")] = valueOf(property, v)
		}
	}
	for i := 0; s.Values != nil && i+1 < len(value.Content); i += 2 {
		if v := value.Content[i+1]; kindOf(yamlnode.Resolved(v)) != "null" {
			fields[value.Content[i].Value] = valueOf(s.Values, v)
		}
	}
	return fields
}
