package exchange

import "net/http"

// Status returns the final status that was sent: 200 if the handler wrote
// nothing, 101 if it took over the connection, and 0 if the connection was
// aborted without an answer.
func (x *Exchange) Status() int {
	switch {
	case x.status != 0:
		return x.status
	case x.hijacked:
		return http.StatusSwitchingProtocols
	case x.aborted && !x.copying:
		return 0
	default:
		return http.StatusOK
	}
}

// Bytes returns the bytes of the body that the handler wrote. It is 0 once the
// handler took over the connection.
func (x *Exchange) Bytes() int64 { return x.bytes }

// Aborted reports whether the connection was cut instead of answered to the end.
func (x *Exchange) Aborted() bool { return x.aborted }

// Abandoned takes note that the connection will be cut, since the handler ended
// its goroutine.
func (x *Exchange) Abandoned() {
	if x.open() == nil {
		x.aborted = true
		x.mu.Unlock()
	}
}

// Abort ends the connection, so that the client cannot take what it got for an
// answer. It does not return.
func (x *Exchange) Abort() {
	x.Abandoned()
	panic(http.ErrAbortHandler)
}

// Begun reports whether it is too late for another answer: some of this one
// may be on its way, or the connection is no longer ours.
func (x *Exchange) Begun() bool {
	if x.open() != nil {
		return true
	}
	defer x.mu.Unlock()
	return x.begun()
}
