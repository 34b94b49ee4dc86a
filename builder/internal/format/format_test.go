package format_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"goless.io/builder/handler"
	"goless.io/builder/internal/format"
)

// TestWriteEscapes covers characters that could break the formats. The scripts of the command test
// the complete formats.
func TestWriteEscapes(t *testing.T) {
	all := []format.Finding{
		{handler.Diagnostic{File: "a,b:c%.go", Line: 7, Column: 2, Message: `50% of <"x">::error`}, format.Error},
		{handler.Diagnostic{File: "a.go", Line: 8, Message: "no column"}, format.Warning},
	}
	for notation, want := range map[string]string{
		"text":   "a,b:c%.go:7:2: 50% of <\"x\">::error\na.go:8: warning: no column\n",
		"json":   `{"file":"a,b:c%.go","line":7,"column":2,"message":"50% of <\"x\">::error","severity":"error"}` + "\n" + `{"file":"a.go","line":8,"column":0,"message":"no column","severity":"warning"}` + "\n",
		"github": "::error file=a%2Cb%3Ac%25.go,line=7,col=2::50%25 of <\"x\">::error\n::warning file=a.go,line=8,col=1::no column\n",
	} {
		t.Run(notation, func(t *testing.T) {
			var b bytes.Buffer
			if err := format.Write(&b, notation, all); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, b.String()); diff != "" {
				t.Errorf("Write: -want +got\n%s", diff)
			}
		})
	}
	var b bytes.Buffer
	all = []format.Finding{{handler.Diagnostic{File: "a\x1b.go", Line: 1, Message: "x\x1b[31m\ry\nz"}, format.Error}}
	if err := format.Write(&b, "github", all); err != nil || b.String() != "::error file=a?.go,line=1,col=1::x?[31m y%0Az\n" {
		t.Errorf("Write: %q, %v", b.String(), err)
	}
}

// TestWriteEscapesURIs checks that file names become URI references, as the schema requires.
func TestWriteEscapesURIs(t *testing.T) {
	for name, want := range map[string]string{
		"a/b.go":    "a/b.go",
		"d ü%/a.go": "d%20%C3%BC%25/a.go",
		"a:b.go":    "./a:b.go",
		"<stdin>":   "%3Cstdin%3E",
	} {
		var b bytes.Buffer
		if err := format.Write(&b, "sarif", []format.Finding{{Diagnostic: handler.Diagnostic{File: name, Line: 1}}}); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(b.String(), `"uri": "`+want+`"`) {
			t.Errorf("%s is not %s in\n%s", name, want, &b)
		}
	}
}

func TestValid(t *testing.T) {
	for _, name := range format.Names {
		if err := format.Valid(name); err != nil {
			t.Errorf("Valid(%q): %v", name, err)
		}
	}
	if err := format.Valid("xml"); err == nil {
		t.Error("Valid accepts a notation that does not exist")
	}
}

func TestText(t *testing.T) {
	for text, want := range map[string]string{
		"hello: ok":                     "hello: ok",
		"größe\tµ":                      "größe\tµ",
		"a\x1b[31mb\a\u202ec":           "a?[31mb??c",
		"a\r\n::error::b\n":             "a \n| ::error::b",
		" ::stop-commands::x":           "|  ::stop-commands::x",
		"##[section]x":                  "## [section]x",
		"first\n second\n":              "first\n second",
		"two: colons::and ##[add-mask]": "two: colons::and ## [add-mask]",
		"":                              "",
	} {
		if got := format.Text(text); got != want {
			t.Errorf("Text(%q) is %q, want %q", text, got, want)
		}
	}
}
