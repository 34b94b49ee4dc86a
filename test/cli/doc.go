// Package cli tests the commands of the builder that access a cluster, with a real kubectl and a
// real API server. There are no nodes and no operator: the scripts in testdata/script create the
// objects that the operator would create, and the tests act as pods and kubelet where necessary.
package cli
