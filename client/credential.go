package client

import (
	"context"
	"errors"
	"fmt"
)

// TokenType says what kind of token a credential is (RFC 8693 section 3).
type TokenType string

// The types of credentials that an issuer knows.
const (
	TypeAccessToken TokenType = "urn:ietf:params:oauth:token-type:access_token"
	TypeIDToken     TokenType = "urn:ietf:params:oauth:token-type:id_token"
	TypeJWT         TokenType = "urn:ietf:params:oauth:token-type:jwt"
)

// Known says whether t is one of the above.
func (t TokenType) Known() bool {
	return t == TypeAccessToken || t == TypeIDToken || t == TypeJWT
}

// Credential is what a user shows to the issuer. Its value is a secret.
type Credential struct {
	Value string
	Type  TokenType // empty is TypeAccessToken
}

// Credentials is where a [TokenSource] has its credential from, if that changes:
// ID tokens live for minutes, and are renewed. See client/login.
type Credentials interface {
	// Credential returns one that should be good. refused is one that the issuer has
	// just refused, or empty; it is returned again only if there is no other. No error
	// has a secret in it.
	Credential(ctx context.Context, refused string) (Credential, error)
}

// fixedCredential never changes.
type fixedCredential Credential

func (c fixedCredential) Credential(context.Context, string) (Credential, error) {
	return Credential(c), nil
}

// credentials is nil if the options have none.
func (o *TokenOptions) credentials() (Credentials, error) {
	switch {
	case o.Credentials != nil && (o.OAuthToken != "" || o.OAuthTokenType != ""):
		return nil, errors.New("token options: Credentials takes the place of OAuthToken; give only one")
	case o.Credentials != nil:
		return o.Credentials, nil
	case o.OAuthToken == "":
		return nil, nil
	case o.OAuthTokenType != "" && !o.OAuthTokenType.Known():
		return nil, fmt.Errorf("token options: OAuthTokenType is %q, want %s, or that of an id_token or a jwt", o.OAuthTokenType, TypeAccessToken)
	}
	return fixedCredential{Value: o.OAuthToken, Type: o.OAuthTokenType}, nil
}
