// Package docs proves that the documentation agrees with what it is about: that its links lead
// somewhere, that there is a section or a row for everything that has a name of its own, and that
// what it shows compiles. Its shell commands are run by test/e2e.
package docs
