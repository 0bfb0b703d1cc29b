// Package identity finds out whose credential it is: one file per kind of
// identity provider.
package identity

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"
)

// ErrUnknownCredential is a provider's answer that a credential is nobody's. It
// is a denial. Every other error of Identify is an outage, which says nothing
// about the credential and so must never be read as a denial.
var ErrUnknownCredential = errors.New("the identity provider does not know the credential")

// CredentialType is what a client says that its credential is (RFC 8693 section 3).
type CredentialType string

// The types of credentials.
const (
	AccessToken CredentialType = "access_token" // of OAuth, opaque or a JWT
	IDToken     CredentialType = "id_token"     // of OpenID Connect
	JWT         CredentialType = "jwt"
)

// Credential is what a user shows for themselves.
type Credential struct {
	// Value is a secret: no log, error, metric or label may have it.
	Value string
	Type  CredentialType
}

// Identity is who a credential stands for, and what is known of them.
type Identity struct {
	// Subject is the user's opaque id, unique at the issuer and never an e-mail
	// address. A provider's users are told apart from another's by its name in
	// front, as in github:583231; those of a static list are as they stand there.
	Subject string
	// ClientID is the OAuth application that the credential was given to.
	ClientID string
	// Models are the logical models that the subject may use; nil is all.
	Models []string
	// Tier is the subject's plan; may be "".
	Tier string

	// Organizations and Teams are those that the subject is known to be in, a team
	// as ORGANIZATION/TEAM, in lower case. Claims are what else the provider says of
	// them. Entitlements may ask for each.
	Organizations, Teams []string
	Claims               map[string][]string
	// Expires is when the credential ends, zero if it is not known to. Nothing that is
	// remembered of it is used afterwards.
	Expires time.Time
	// Stale says that the provider is out, and that this is its last good answer.
	Stale bool
	// Cached says that this answer is remembered and still good.
	Cached bool
}

// clone is a copy that may be changed.
func (i Identity) clone() Identity {
	i.Models, i.Organizations, i.Teams = slices.Clone(i.Models), slices.Clone(i.Organizations), slices.Clone(i.Teams)
	i.Claims = maps.Clone(i.Claims)
	for name, values := range i.Claims {
		i.Claims[name] = slices.Clone(values)
	}
	return i
}

// Provider knows credentials.
type Provider interface {
	// Name is the provider's name in configuration, metrics and audit lines.
	Name() string
	// Identify returns the identity behind a credential. Its error is
	// ErrUnknownCredential or an outage, and never contains the credential. One that
	// cannot be of this provider, by its type or its form, is unknown without asking.
	Identify(ctx context.Context, credential Credential) (Identity, error)
}

// Screener is a Provider that tells by a credential's type or form that it cannot be one
// of its own. Those are unknown even while the provider is out, and cost it nothing.
type Screener interface {
	Provider
	// Plausible is false for a credential that Identify knows to be unknown without asking.
	Plausible(credential Credential) bool
}

// OutageError is an outage of which more is known. Every other error that is not
// ErrUnknownCredential is an outage of the whole provider.
type OutageError struct {
	Cause error
	// RetryAfter is how long the provider wants to be left alone; zero if it did not say.
	RetryAfter time.Duration
	// Single says that the provider answers, but not about this credential: others may
	// be asked about all the same.
	Single bool
}

func (e *OutageError) Error() string { return e.Cause.Error() }

// Unwrap returns the cause.
func (e *OutageError) Unwrap() error { return e.Cause }

// Login is how a person gets a credential of a provider: OAuth's device flow (RFC 8628),
// by a client that is public (RFC 6749 section 2.1).
type Login struct {
	// ClientID is the OAuth application that people log in to.
	ClientID string
	Scope    string
	// DeviceEndpoint and TokenEndpoint are the provider's, whole URLs.
	DeviceEndpoint, TokenEndpoint string
	// Type is the type of the credential that comes of it.
	Type CredentialType
}

// LoginProvider is a Provider at which people log in.
type LoginProvider interface {
	Provider
	// Login is false if the provider's configuration has none, or nothing is known of
	// it yet. It does not wait.
	Login() (Login, bool)
}
