package middleware

// AppendSeconds is tested by itself: the duration of a request cannot be chosen.
var AppendSeconds = appendSeconds
