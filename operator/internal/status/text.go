package status

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"unicode"

	corev1 "k8s.io/api/core/v1"

	"goless.io/operator/api/v1beta1"
)

// maxLine keeps a text short enough for a condition, and for an event, which
// holds 1024 bytes.
const maxLine = 512

// oneLine makes a line of any text, what a function wrote included: nothing in
// it can take a terminal or a log for a ride.
func oneLine(text string) string {
	text = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case !unicode.IsPrint(r):
			return '?'
		}
		return r
	}, strings.TrimSpace(text))
	if len(text) <= maxLine {
		return text
	}
	return strings.ToValidUTF8(text[:maxLine], "") + "..."
}

// summary is one line about diagnostics: the first, and how many more.
func summary(diagnostics []v1beta1.Diagnostic, omitted int32) string {
	text := place(diagnostics[0])
	switch more := len(diagnostics) - 1 + int(omitted); {
	case more == 0:
		return text
	case omitted == 0:
		return text + fmt.Sprintf(" (and %d more in status.build.diagnostics)", more)
	default:
		return text + fmt.Sprintf(" (and %d more)", more)
	}
}

// warned is a message about a build with what go vet finds in the source: how
// much, and the first.
func warned(message string, warnings []v1beta1.Diagnostic) string {
	if len(warnings) == 1 {
		return message + "; go vet warns: " + place(warnings[0])
	}
	return message + fmt.Sprintf("; go vet has %d warnings, see status.build.warnings: %s", len(warnings), place(warnings[0]))
}

// place is a diagnostic as compilers print it.
func place(d v1beta1.Diagnostic) string {
	text := d.File
	if d.Line > 0 {
		text += fmt.Sprintf(":%d", d.Line)
	}
	if d.Column > 0 {
		text += fmt.Sprintf(":%d", d.Column)
	}
	return oneLine(text + ": " + d.Message)
}

// waiting says why a container does not run. The kubelet calls an image that it
// cannot pull by two reasons in turn, and gives one cause for both.
func waiting(w *corev1.ContainerStateWaiting) string {
	if _, cause, ok := strings.Cut(w.Message, "ErrImagePull: "); ok && w.Reason == "ImagePullBackOff" {
		return oneLine("ErrImagePull: " + cause)
	}
	return oneLine(w.Reason + ": " + w.Message)
}

// lastWords is what a container left to say when it ended: how the Go runtime
// says why a program cannot go on, or else the last line of its log. One that the
// kernel has killed had no time for any.
func lastWords(ended *corev1.ContainerStateTerminated) string {
	if ended.Reason == "OOMKilled" {
		return "it needs more memory than spec.resources.limits.memory"
	}
	text := strings.TrimSpace(ended.Message)
	for _, cause := range []string{"panic: ", "fatal error: "} {
		if i := strings.Index(text, cause); i >= 0 {
			line, _, _ := strings.Cut(text[i:], "\n")
			return oneLine(line)
		}
	}
	last := text[strings.LastIndexByte(text, '\n')+1:]
	var entry struct{ Msg, Error, Err string }
	switch err := json.Unmarshal([]byte(last), &entry); {
	case last == "":
		return ended.Reason
	case err == nil && cmp.Or(entry.Error, entry.Err) != "":
		return oneLine(entry.Msg + ": " + cmp.Or(entry.Error, entry.Err))
	case err == nil && entry.Msg != "":
		return oneLine(entry.Msg)
	}
	return oneLine(last)
}

// varying is what is another one each time: moments, addresses of memory, ports, and
// whatever is measured.
var varying = regexp.MustCompile(`\d{4}[-/]\d{2}[-/]\d{2}[T ][\d:.,]+(Z|[+-][\d:]+)?|0x[0-9a-fA-F]+|\d+\.[\d.]+|\d{5,}`)

// alike tells whether two texts differ in nothing but that. What fails again and again
// is no news.
func alike(a, b string) bool {
	return varying.ReplaceAllLiteralString(a, "0") == varying.ReplaceAllLiteralString(b, "0")
}
