package toolchain

import "testing"

// TestSlashes checks the behavior on Windows on all systems.
func TestSlashes(t *testing.T) {
	const dir = `C:\Users\Some One\Temp\p`
	for text, want := range map[string]string{
		`handler\sub\a.go:3:5: undefined: x`:            `handler/sub/a.go:3:5: undefined: x`,
		`.\handler\a.go:3:5: other at handler\b.go:1:1`: `./handler/a.go:3:5: other at handler/b.go:1:1`,
		dir + `\handler\a.go:1:2: x`:                    `C:/Users/Some One/Temp/p/handler/a.go:1:2: x`,
		`handler\a.go:1:2: cannot use "\n" as int`:      `handler/a.go:1:2: cannot use "\n" as int`,
		`a.go:1:2: invalid character U+005C '\' in x`:   `a.go:1:2: invalid character U+005C '\' in x`,
		`..\..\mod\example.com\m@v1.0.0\go.mod:3: no`:   `../../mod/example.com/m@v1.0.0/go.mod:3: no`,
		"a.go:1:1: x\n" + `handler\b.go:1:1: y` + "\n":  "a.go:1:1: x\nhandler/b.go:1:1: y\n",
	} {
		if got := slashes(text, []string{dir}); got != want {
			t.Errorf("slashes(%s) = %s, want %s", text, got, want)
		}
	}
}
