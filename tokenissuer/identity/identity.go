// Package identity finds out whose credential it is: one file per kind of
// identity provider.
package identity

import (
	"context"
	"errors"
)

// ErrUnknownCredential is a provider's answer that a credential is nobody's. It
// is a denial. Every other error of Identify is an outage, which says nothing
// about the credential and so must never be read as a denial.
var ErrUnknownCredential = errors.New("the identity provider does not know the credential")

// Identity is who a credential stands for, and what they may use.
type Identity struct {
	// Subject is the user's opaque id, unique at the issuer and never an e-mail
	// address.
	Subject string
	// ClientID is the OAuth application that the credential was given to.
	ClientID string
	// Models are the logical models that the subject may use; nil is all.
	Models []string
	// Tier is the subject's plan; may be "".
	Tier string
}

// Provider knows credentials.
type Provider interface {
	// Name is the provider's name in configuration, metrics and audit lines.
	Name() string
	// Identify returns the identity behind a credential. Its error is
	// ErrUnknownCredential or an outage, and never contains the credential.
	Identify(ctx context.Context, credential string) (Identity, error)
}
