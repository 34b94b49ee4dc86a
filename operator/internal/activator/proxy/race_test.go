//go:build race

package proxy

func init() { raced = true }
