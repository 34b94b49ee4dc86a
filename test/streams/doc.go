// Package streams tests the processes in the pods of triggers that consume a stream. They
// deliver from real servers to a function, while any of them is killed.
package streams
