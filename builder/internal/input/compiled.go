package input

import (
	"io"
	"slices"
	"strings"
)

// compiledMagic are the first bytes of what compilers and linkers write, as the go
// command knows them: archives, ELF, Mach-O, PE, Plan 9, WebAssembly and XCOFF.
var compiledMagic = []string{
	"!<arch>\n", "<bigaf>\n", "\x7fELF",
	"\xfe\xed\xfa\xce", "\xfe\xed\xfa\xcf", "\xce\xfa\xed\xfe", "\xcf\xfa\xed\xfe", "\xca\xfe\xba\xbe",
	"MZ\x90\x00\x03\x00", "MZ\x78\x00\x01\x00",
	"\x00\x00\x01\xeb", "\x00\x00\x8a\x97", "\x00\x00\x06\x47",
	"\x00asm", "\x01\xdf", "\x01\xf7",
}

// IsCompiled reports whether what r reads begins like a program, an object file or
// an archive of them.
func IsCompiled(r io.Reader) bool {
	start := make([]byte, 8)
	n, _ := io.ReadFull(r, start) // what is shorter is compared as well
	return slices.ContainsFunc(compiledMagic, func(magic string) bool { return strings.HasPrefix(string(start[:n]), magic) })
}
