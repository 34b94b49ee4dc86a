// Package streams tests what runs in the pods of triggers that consume a stream, as processes:
// they deliver from real servers to a function, while any of them is killed.
package streams
