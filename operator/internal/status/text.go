package status

import (
	"fmt"
	"strings"
	"unicode"

	corev1 "k8s.io/api/core/v1"

	"goless.io/operator/api/v1beta1"
)

// maxLine keeps a text short enough for a condition, and for an event, which
// holds 1024 bytes.
const maxLine = 512

// oneLine makes one printable line of any text. The text may be written by a function, and
// must not contain control sequences for terminals or line breaks for logs.
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

// warned adds to a message the number of warnings of a build, and the first of them.
func warned(message string, warnings []v1beta1.Diagnostic) string {
	if len(warnings) == 1 {
		return message + "; warning: " + place(warnings[0])
	}
	return message + fmt.Sprintf("; %d warnings, see status.build.warnings: %s", len(warnings), place(warnings[0]))
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

// waiting says why a container does not run. For an image that cannot be pulled the kubelet
// alternates between two reasons with the same cause, and the message has the first.
func waiting(w *corev1.ContainerStateWaiting) string {
	if _, cause, ok := strings.Cut(w.Message, "ErrImagePull: "); ok && w.Reason == "ImagePullBackOff" {
		return oneLine("ErrImagePull: " + cause)
	}
	return oneLine(w.Reason + ": " + w.Message)
}
