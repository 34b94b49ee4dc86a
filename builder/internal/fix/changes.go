package fix

import (
	"go/parser"
	"go/token"
	"maps"
	"slices"
	"strings"
)

// Describe says how two contents of a Go file differ: which imports were added and
// removed, or else that it was formatted.
func Describe(before, after []byte) string {
	old, new := importSpecs(before), importSpecs(after)
	var words []string
	for _, spec := range slices.Sorted(maps.Keys(new)) {
		if !old[spec] {
			words = append(words, "added import "+spec)
		}
	}
	for _, spec := range slices.Sorted(maps.Keys(old)) {
		if !new[spec] {
			words = append(words, "removed import "+spec)
		}
	}
	if len(words) == 0 {
		return "formatted"
	}
	return strings.Join(words, ", ")
}

// importSpecs returns the imports of a file in the form `name "path"`.
func importSpecs(src []byte) map[string]bool {
	specs := map[string]bool{}
	file, err := parser.ParseFile(token.NewFileSet(), "", src, parser.ImportsOnly)
	if err != nil {
		return specs
	}
	for _, spec := range file.Imports {
		text := spec.Path.Value
		if spec.Name != nil {
			text = spec.Name.Name + " " + text
		}
		specs[text] = true
	}
	return specs
}
