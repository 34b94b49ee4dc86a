// Package cli tests the commands of the builder that reach a cluster, with a real kubectl and a
// real API server. There are no nodes and no operator: the scripts in testdata/script write what
// those would have to say, and the test answers as a pod and as a kubelet where that is needed.
package cli
