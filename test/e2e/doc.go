// Package e2e tests Goless as its users meet it: Functions are applied to a real
// cluster, called through their Services, changed, broken and deleted, while
// traffic runs. What needs no kubelet is not tested here: see test/faults for what
// happens when the operator is killed, or when others change what belongs to a Function.
//
// It owns what a user can observe, and refuses to know how it comes about: it
// talks to the cluster that KUBECONFIG names and to nothing else, so that any
// cluster with Goless installed will do. make e2e provides one.
//
// A test gets a namespace of its own, where Pod Security is as strict as it can
// be, and a witness that records every version of every object in it. Tests wait
// for what the witness sees; when one ends, the record must not hold a moment at
// which the status of a Function was wrong (see namespace.neverLied).
//
// Tests that disturb the operator or the node, or look at the time, are not parallel. The
// testing package runs them first and alone.
package e2e
