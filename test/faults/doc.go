// Package faults tests the operator with fault injection: it is killed before and after each
// write, its requests fail or hang, its watches are stale, late, repeated and cut, its objects
// drift, a mutating policy changes them, a second operator runs, and etcd is unavailable.
//
// The operator, etcd, kube-apiserver and kube-controller-manager are the real programs; only
// nodes are simulated. The tests do not depend on the implementation of the operator: they read
// its writes from the audit log, and the results from the API server.
//
// A case is one trial in its own namespace. It passes when the cluster reaches the state that
// it has without the fault, and no oracle (see judge) has found a violation: an object created
// twice or left over, a change of a foreign object, a write after the end, a wrong status, or
// an interrupted service.
//
// go test runs a selection of at most five minutes; -full runs all cases. The table at the end
// counts the cases; make faults prints it.
package faults
