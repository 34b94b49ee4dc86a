package middleware

// AppendSeconds is exported for tests, which cannot choose the duration of a request.
var AppendSeconds = appendSeconds
