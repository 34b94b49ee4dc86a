// Command unwrap copies CustomResourceDefinitions from the standard input to the standard output and
// joins the lines of each paragraph in their descriptions. Without this, kubectl explain would print
// the line breaks of the Go comments.
package main

import (
	"bytes"
	"fmt"
	"io"
	"log"
	"os"
	"regexp"
	"strings"

	"sigs.k8s.io/yaml"
)

func main() {
	log.SetFlags(0)
	text, err := io.ReadAll(os.Stdin)
	if err != nil {
		log.Fatal(err)
	}
	// A comment may precede the first document.
	comment, documents, _ := strings.Cut(string(text), "---\n")
	out := bytes.NewBufferString(comment)
	for document := range strings.SplitSeq(documents, "\n---\n") {
		unwrapped, err := unwrap([]byte(document))
		if err != nil {
			log.Fatal(err)
		}
		fmt.Fprintf(out, "---\n%s", unwrapped)
	}
	if _, err := out.WriteTo(os.Stdout); err != nil {
		log.Fatal(err)
	}
}

// unwrap returns a document in which the lines of all descriptions are joined.
func unwrap(document []byte) ([]byte, error) {
	var object any
	if err := yaml.Unmarshal(document, &object); err != nil {
		return nil, err
	}
	unwrapAll(object)
	return yaml.Marshal(object)
}

// unwrapAll joins the lines of each description in a value. A property may be named description too:
// it is a schema, not a string.
func unwrapAll(value any) {
	switch value := value.(type) {
	case []any:
		for _, item := range value {
			unwrapAll(item)
		}
	case map[string]any:
		for name, field := range value {
			if text, ok := field.(string); ok && name == "description" {
				value[name] = joinLines(text)
			}
			unwrapAll(field)
		}
	}
}

// newLine matches a line that does not continue the one above it: the first line of a list item, or a row
// of a table. Items with numbers do not count, because a sentence may end with a number.
var newLine = regexp.MustCompile(`^([-*] |\|)`)

// joinLines returns a text that has line breaks only between paragraphs, list items and table rows.
func joinLines(text string) string {
	var joined strings.Builder
	between := ""
	for line := range strings.SplitSeq(text, "\n") {
		line = strings.TrimSpace(line)
		switch {
		case line == "" && joined.Len() > 0:
			between = "\n\n"
			continue
		case between == " " && newLine.MatchString(line):
			between = "\n"
		}
		joined.WriteString(between + line)
		between = " "
		if strings.HasSuffix(line, "|") {
			between = "\n"
		}
	}
	return joined.String()
}
