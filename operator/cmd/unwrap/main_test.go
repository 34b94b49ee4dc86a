package main

import "testing"

func TestJoinLines(t *testing.T) {
	for name, test := range map[string]struct{ text, want string }{
		"Line":         {"one line", "one line"},
		"Paragraph":    {"one\nsentence. Another\none.", "one sentence. Another one."},
		"Paragraphs":   {"one\ntwo\n\nthree\nfour\n", "one two\n\nthree four"},
		"List":         {"one of:\n  - a, which\n    is first\n  - b\n\nand\nmore", "one of:\n- a, which is first\n- b\n\nand more"},
		"ListAfterGap": {"one of:\n\n1. a\n2. b", "one of:\n\n1. a\n2. b"},
		"Table":        {"spread:\n| a |\n| 1 |\nand\nmore", "spread:\n| a |\n| 1 |\nand more"},
		"NoList":       {"from 0\n-1 and 3.5\nare words", "from 0 -1 and 3.5 are words"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := joinLines(test.text); got != test.want {
				t.Errorf("joinLines(%q) = %q, want %q", test.text, got, test.want)
			}
		})
	}
}

// A property that is named description is not a description.
func TestUnwrap(t *testing.T) {
	const document = `properties:
  description:
    description: |-
      description is
      a text.
    type: string
`
	const want = `properties:
  description:
    description: description is a text.
    type: string
`
	got, err := unwrap([]byte(document))
	if err != nil || string(got) != want {
		t.Errorf("got error %v and\n%s", err, got)
	}
}
