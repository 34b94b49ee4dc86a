// Package faults tests the operator with fault injection: it is killed before and after each
// write, its requests fail or hang, its watches are stale, delayed, duplicated or interrupted,
// its objects drift, a mutating policy changes them, a second operator runs, and etcd is
// unavailable.
//
// The operator, etcd, kube-apiserver and kube-controller-manager are the real programs; only
// nodes are simulated. The tests do not depend on the implementation of the operator: they read
// its writes from the audit log, and the results from the API server.
//
// A case is one trial in its own namespace. It passes when the cluster reaches the state that it
// has without the fault, and no check fails (see trial.judge and quiet): no object was created
// twice or left over, no object of another owner was changed, the operator made no write after
// the case had reached its final state, the status was never wrong, and the service was never
// interrupted.
//
// go test runs a selection of at most five minutes; -full runs all cases. The table at the end
// counts the cases; make faults prints it.
package faults
