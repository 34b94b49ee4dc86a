// Package faults tests the operator under every fault that its cluster can give
// it: killed before and after each write, answered wrongly or never, fed with
// stale, late, repeated and cut watches, drifted under, fought by a mutating
// policy, doubled, and left without etcd.
//
// It owns the faults and what must hold after each of them. The operator is the
// real program, and so are etcd, kube-apiserver and kube-controller-manager; only
// nodes are played. It refuses to know how the operator works inside: what it
// wrote is read from the audit log, what came of it from the API server.
//
// A case is one trial in a namespace of its own. It ends when the cluster is what
// it would be without the fault, and the oracles have found nothing (see judge):
// nothing created twice or left over, nothing foreign touched, nothing written
// once all is done, no status that was not true, no service interrupted.
//
// go test runs a selection of at most five minutes; -full runs everything. The
// table at the end counts cases; make faults prints it.
package faults
