// Package streams tests the processes in the pods of NATSTriggers. Events are delivered from a
// real NATS server to a function while the consumer, the server or the function is killed.
package streams
