package input

import (
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"go.yaml.in/yaml/v3"
)

// A rule is an expression in CEL, and what to say where it does not hold.
type rule struct {
	Rule    string `yaml:"rule"`
	Message string `yaml:"message"`

	compile sync.Once
	program cel.Program
}

// rules are compiled for values whose types the schema has checked.
var rules = sync.OnceValue(func() *cel.Env {
	env, err := cel.NewEnv(cel.Variable("self", cel.DynType))
	if err != nil {
		panic(err) // it depends on nothing
	}
	return env
})

// holds tells whether a value keeps the rule. So does one in which something has the wrong type:
// that is reported already.
func (r *rule) holds(self any) bool {
	r.compile.Do(func() {
		expression, issues := rules().Compile(r.Rule)
		if issues.Err() != nil {
			panic(issues.Err()) // it was embedded
		}
		var err error
		if r.program, err = rules().Program(expression); err != nil {
			panic(err)
		}
	})
	kept, _, err := r.program.Eval(map[string]any{"self": self})
	return err != nil || kept == types.True
}

// valueOf returns a value as the rules of its schema see it: without fields that are null, and with
// names of fields that are names in CEL.
func valueOf(s *schema, value *yaml.Node) any {
	value = resolved(value)
	switch kindOf(value) {
	case "object":
		fields := map[string]any{}
		for name, property := range s.Properties {
			if v := field(value, name); v.Kind != 0 && kindOf(v) != "null" {
				fields[strings.ReplaceAll(name, "-", "__dash__")] = valueOf(property, v)
			}
		}
		return fields
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
