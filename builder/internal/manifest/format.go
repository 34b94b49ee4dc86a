package manifest

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"goless.io/builder/internal/source"
)

// Format returns the YAML of a Function. The source is a readable literal block, unless it
// contains characters that a literal block cannot.
//
// By default, the Service has the name of the Function, and the name of a Service must begin with a
// letter. If the name of the Function begins with a digit, Format sets spec.service.
func Format(name string, text []byte) ([]byte, error) {
	const head = "apiVersion: goless.io/v1beta1\nkind: Function\nmetadata:\n  name: %sspec:\n%s  function: "
	var service string
	if name[0] <= '9' {
		service = fmt.Sprintf("  service: %s\n", strings.TrimRight(fmt.Sprintf("fn-%.60s", name), "-"))
	}
	scalar, err := yaml.Marshal(name) // includes a line break, and quotes if the plain name would not be a string
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, head, scalar, service)
	start := b.Len()
	b.WriteString(literal(string(text)))
	if holds(b.Bytes(), text) {
		return b.Bytes(), nil
	}
	b.Truncate(start)
	b.WriteString(strconv.Quote(string(text)) + "\n") // these escapes have the same meaning in YAML
	if !holds(b.Bytes(), text) {
		return nil, fmt.Errorf("cannot write the source of %s as YAML; check that it is UTF-8 text", name)
	}
	return b.Bytes(), nil
}

// literal returns source as a literal block, indented below a field of spec.
func literal(source string) string {
	header := "|"
	if strings.HasPrefix(strings.TrimLeft(source, "\n"), " ") {
		header += "2" // more than the parent; cannot be detected from the first line
	}
	switch {
	case !strings.HasSuffix(source, "\n"):
		header += "-"
	case strings.HasSuffix(source, "\n\n"):
		header += "+"
	}
	var b strings.Builder
	b.WriteString(header + "\n")
	for line := range strings.Lines(source) {
		if line != "\n" {
			b.WriteString("    ")
		}
		b.WriteString(line)
	}
	if !strings.HasSuffix(source, "\n") {
		b.WriteString("\n")
	}
	return b.String()
}

// holds reports whether the YAML contains exactly one Function with this source.
func holds(manifest, text []byte) bool {
	functions, _, err := readYAML(source.StdinName, manifest, nil)
	return err == nil && len(functions) == 1 && bytes.Equal(functions[0].Source, text)
}
