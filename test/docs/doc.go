// Package docs checks the documentation against the code: links are valid, each condition
// reason, metric, alert and command is documented, and examples compile. Package test/e2e
// executes its shell commands.
package docs
