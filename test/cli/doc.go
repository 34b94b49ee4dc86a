// Package cli tests the commands of the builder that access a cluster, with a real kubectl and
// a real API server. There are no nodes and no operator: the scripts in testdata/script write
// the objects that those would write, and the tests serve in place of a pod and a kubelet where
// necessary.
package cli
