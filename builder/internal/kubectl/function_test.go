package kubectl

import "testing"

// A function whose new version was rolled back is at fault; a cluster without an activator is not.
func TestIsFunctionError(t *testing.T) {
	for reason, want := range map[string]bool{
		"InvalidSpec": true, "CompileFailed": true, "CrashLooping": true, "RolledBack": true,
		"NoActivator": false, "ApplyFailed": false, "ProgressDeadlineExceeded": false, "NotOwned": false,
	} {
		if got := (Condition{Reason: reason}).IsFunctionError(); got != want {
			t.Errorf("%s: %t, want %t", reason, got, want)
		}
	}
}
