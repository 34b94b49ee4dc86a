package status

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/workload"
)

// summary returns one line about diagnostics: the first one, and the number of others.
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

// warned appends the number of warnings of a build, and the first of them, to a message.
func warned(message string, warnings []v1beta1.Diagnostic) string {
	if len(warnings) == 1 {
		return message + "; warning: " + place(warnings[0])
	}
	return message + fmt.Sprintf("; %d warnings, see status.build.warnings: %s", len(warnings), place(warnings[0]))
}

// place formats a diagnostic like a compiler.
func place(d v1beta1.Diagnostic) string {
	text := d.File
	if d.Line > 0 {
		text += fmt.Sprintf(":%d", d.Line)
	}
	if d.Column > 0 {
		text += fmt.Sprintf(":%d", d.Column)
	}
	return workload.OneLine(text + ": " + d.Message)
}

// waiting returns the reason why a container does not run. For an image that cannot be pulled, the
// kubelet alternates between two reasons with the same cause; the result contains the first one.
func waiting(w *corev1.ContainerStateWaiting) string {
	if _, cause, ok := strings.Cut(w.Message, "ErrImagePull: "); ok && w.Reason == "ImagePullBackOff" {
		return workload.OneLine("ErrImagePull: " + cause)
	}
	return workload.OneLine(w.Reason + ": " + w.Message)
}
