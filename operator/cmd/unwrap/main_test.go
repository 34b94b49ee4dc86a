package main

import "testing"

func TestJoinLines(t *testing.T) {
	for name, test := range map[string]struct{ text, want string }{
		"Line":         {"one line", "one line"},
		"Paragraph":    {"one\nsentence. Another\none.", "one sentence. Another one."},
		"Paragraphs":   {"one\ntwo\n\nthree\nfour\n", "one two\n\nthree four"},
		"List":         {"one of:\n  - a, which\n    is first\n  - b\n\nand\nmore", "one of:\n- a, which is first\n- b\n\nand more"},
		"ListAfterGap": {"one of:\n\n- a\n- b", "one of:\n\n- a\n- b"},
		"Table":        {"spread:\n| a |\n| 1 |\nand\nmore", "spread:\n| a |\n| 1 |\nand more"},
		"NoList":       {"from\n-1 to\n32. More", "from -1 to 32. More"},
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
