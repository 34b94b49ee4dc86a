// Package acme is a stub of github.com/go-acme/lego/v5/acme, so that Traefik compiles without
// it. It contains the types of an account, and the error of all functions.
package acme

import "errors"

// ErrUnsupported is the error of all functions of this module.
var ErrUnsupported = errors.New("this build of Traefik does not support ACME")

// Account is an account.
type Account struct{}

// ExtendedAccount is an account with its URL.
type ExtendedAccount struct {
	Account
	Location string
}
