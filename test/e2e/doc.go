// Package e2e tests Goless from the point of view of its users. It applies Functions to a real
// cluster, calls them through their Services, and changes, breaks and deletes them under
// traffic. What needs no kubelet is tested elsewhere: test/faults tests restarts of the
// operator, and changes of its objects by other clients.
//
// The tests observe only what a user can observe. They use only the cluster of KUBECONFIG, which
// may be any cluster with Goless installed; make e2e provides one.
//
// Each test has a namespace with the restricted Pod Security Standard, and a watcher (witness)
// that records all versions of all objects in it. Tests wait for what the watcher records. The
// test fails if the status of a Function was wrong at any time (see namespace.neverLied).
//
// Tests that disturb the operator or the node, or measure time, are not parallel. The testing
// package runs them first and one at a time.
package e2e
