package linewriter_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"goless.io/builder/internal/linewriter"
)

func TestWriter(t *testing.T) {
	long := strings.Repeat("x", 64<<10)
	for name, c := range map[string]struct {
		writes []string
		want   string
	}{
		"Lines":      {[]string{"a\nb\n", "c\n"}, "[a\nb\n][c\n]"},
		"Parts":      {[]string{"a", "b\nc", "d\n", "e"}, "[ab\n][cd\n][e]"},
		"Incomplete": {[]string{"a"}, "[a]"},
		"Nothing":    {[]string{""}, ""},
		"Long":       {[]string{"a\n" + long, "b\n"}, "[a\n" + long + "][b\n]"},
	} {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			w := &linewriter.Writer{To: &b, Edit: func(text string) string { return "[" + text + "]" }}
			for _, text := range c.writes {
				if n, err := w.Write([]byte(text)); n != len(text) || err != nil {
					t.Fatalf("Write: %d, %v", n, err)
				}
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, b.String()); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}
