// Package docs checks the documentation against the code: links are valid, everything with a
// name has a section or a row, and examples compile. Package test/e2e executes its shell
// commands.
package docs
