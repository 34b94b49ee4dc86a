package streams

import "strings"

// status is the response of a process at /status.
type status struct {
	Lag      *int64
	Problems []struct{ Reason, Message string }
}

func (s *status) has(reason, text string) bool {
	for _, p := range s.Problems {
		if p.Reason == reason && strings.Contains(p.Message, text) {
			return true
		}
	}
	return false
}
