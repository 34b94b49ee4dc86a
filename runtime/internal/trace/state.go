package trace

import "strings"

// Limits of the W3C recommendation for tracestate. It asks to pass on at least
// 512 bytes; what is longer than maxState is dropped as a whole.
const (
	maxStateMembers = 32
	maxState        = 2048
	maxStateKey     = 256
	maxStateValue   = 256
)

// State joins the values of the header tracestate into one. It returns "" if
// they are not well formed: half a list is worse than none.
func State(values []string) string {
	joined := strings.Join(values, ",")
	if len(joined) > maxState {
		return ""
	}
	members := 0
	for member := range strings.SplitSeq(joined, ",") {
		member = strings.Trim(member, " \t")
		if member == "" {
			continue // allowed, and counts for nothing
		}
		key, value, found := strings.Cut(member, "=")
		if !found || !validStateKey(key) || !validStateValue(value) {
			return ""
		}
		members++
	}
	if members == 0 || members > maxStateMembers {
		return ""
	}
	return joined
}

// validStateKey accepts vendor and tenant@vendor.
func validStateKey(key string) bool {
	if key == "" || len(key) > maxStateKey || strings.Count(key, "@") > 1 {
		return false
	}
	for i := range len(key) {
		c := key[i]
		letter := 'a' <= c && c <= 'z' || '0' <= c && c <= '9'
		if !letter && (i == 0 || strings.IndexByte("_-*/@", c) < 0) {
			return false
		}
	}
	return true
}

// validStateValue accepts printable ASCII without comma and equals sign. The
// space that may not end it was cut off with the member's.
func validStateValue(value string) bool {
	if value == "" || len(value) > maxStateValue {
		return false
	}
	for i := range len(value) {
		if c := value[i]; c < ' ' || c > '~' || c == '=' {
			return false
		}
	}
	return true
}
