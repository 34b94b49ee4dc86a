package main

import (
	"fmt"
	"strings"
	"time"

	"goless.io/builder/handler"
)

// maxSource is the maximum size of a Function's source, in bytes of ASCII.
const maxSource = 245760

// measureValidate measures the validation of sources: an ordinary one of 10 KB, and the slowest
// of several of the maximum size.
func measureValidate(s *session) error {
	ordinary, err := verdict(s.n, ordinarySource(10_000))
	if err != nil {
		return err
	}
	s.results.add("validate.10k", ordinary, "ms", s.n)
	worst := 0.0
	for name, src := range map[string]string{
		"ordinary":     ordinarySource(maxSource),
		"parentheses":  repeat("package p\n\nvar x = ", "("),
		"imports":      repeat("package p\n", "import \"a\"\n"),
		"functions":    repeat("package p\n", "func f(){}\n"),
		"declarations": repeat("package p\nvar(", "a,"),
		"errors":       repeat("package p\n", "}\n"),
		"directives":   repeat("package p\n", "//go:linkname a\n"),
		"composites":   repeat("package p\nvar x = T", "{{}}"),
		"archive":      archive("package p\n"),
		"markers":      repeat("-- a.go --\n", "-- b --\n"),
		"aliases":      repeat("package p\ntype A = A\n", "type B = A\n"),
	} {
		took, err := verdict(max(3, s.n/4), src)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		worst = max(worst, took)
	}
	s.results.add("validate.max", worst, "ms", max(3, s.n/4))
	return nil
}

// verdict returns the median duration in milliseconds of Parse for src, regardless of its
// result.
func verdict(n int, src string) (float64, error) {
	var samples []float64
	for range n + 1 {
		started := time.Now()
		h, err := handler.Parse(handler.Filename, []byte(src))
		samples = append(samples, float64(time.Since(started).Microseconds())/1000)
		if (h == nil) == (err == nil) {
			return 0, fmt.Errorf("there is no verdict, or are two: %v, %w", h, err)
		}
	}
	return median(samples[1:]), nil
}

// ordinarySource returns a valid handler of about size bytes.
func ordinarySource(size int) string {
	var b strings.Builder
	b.WriteString("package p\n\nimport \"net/http\"\n\nfunc Handler(w http.ResponseWriter, r *http.Request) { f0(w, r, 0) }\n")
	for i := 0; b.Len() < size-300; i++ {
		fmt.Fprintf(&b, `
// f%[1]d answers some paths and passes the others on.
func f%[1]d(w http.ResponseWriter, r *http.Request, depth int) {
	switch {
	case r.URL.Path == "/%[1]d" && depth < 10:
		w.Header().Set("X-Answer", "%[1]d")
		_, _ = w.Write([]byte("hello from %[1]d"))
	case depth > 100:
		http.NotFound(w, r)
	}
}
`, i)
	}
	return b.String()
}

// repeat returns a head followed by as many bodies as fit.
func repeat(head, body string) string {
	return head + strings.Repeat(body, (maxSource-len(head))/len(body))
}

// archive returns as many files as fit.
func archive(body string) string {
	var b strings.Builder
	for i := 0; b.Len() < maxSource-100; i++ {
		fmt.Fprintf(&b, "-- f%d.go --\n%s", i, body)
	}
	return b.String()
}
