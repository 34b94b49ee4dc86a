package input

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// A block is a scalar of a YAML file that holds a source.
type block struct {
	scalar *yaml.Node
	lines  []string // of the file
	source []string // lines of the source
}

// locate returns the place in the file of a line and column of the source. If the scalar
// is not a literal block, that is the place where the scalar begins.
func (b *block) locate(line, column int) place {
	// The indicator ends its line, so the source begins on the next one.
	inFile := b.scalar.Line + line
	if !b.literal() || inFile > len(b.lines) {
		inside := fmt.Sprintf("line %d of the source", line)
		if b.scalar.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle|yaml.LiteralStyle) == 0 && len(b.source) > 1 {
			inside += ", whose lines need function: | above them"
		}
		return place{line: b.scalar.Line, column: b.scalar.Column, inside: inside}
	}
	return place{line: inFile, column: b.column(line, column)}
}

func (b *block) literal() bool { return b.scalar.Style&yaml.LiteralStyle != 0 }

func (b *block) column(line, column int) int {
	if column == 0 || line > len(b.source) {
		return column
	}
	text := strings.TrimSuffix(b.lines[b.scalar.Line+line-1], "\r")
	if indentation, ok := strings.CutSuffix(text, b.source[line-1]); ok {
		return column + len(indentation)
	}
	return column
}

// replace returns the lines of the file with another source.
func (b *block) replace(lines []string, source string) []string {
	begin := b.scalar.Line // the lines of the file count from 1, so this is below the indicator
	end := begin + len(withoutEnd(b.source))
	var changed []string
	for _, line := range withoutEnd(strings.Split(source, "\n")) {
		if line != "" {
			line = b.indentation() + line
		}
		if strings.HasSuffix(b.lines[begin-1], "\r") {
			line += "\r"
		}
		changed = append(changed, line)
	}
	return slices.Concat(lines[:begin], changed, lines[end:])
}

// withoutEnd drops the empty string that follows the last line break.
func withoutEnd(lines []string) []string {
	if end := len(lines) - 1; lines[end] == "" {
		return lines[:end]
	}
	return lines
}

// indentation returns the white space before the lines of the source.
func (b *block) indentation() string {
	for i, line := range b.source {
		if line != "" {
			return strings.TrimSuffix(strings.TrimSuffix(b.lines[b.scalar.Line+i], "\r"), line)
		}
	}
	return ""
}
