package login

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/ghostline-dev/ghostline/client"
	"github.com/ghostline-dev/ghostline/internal/oauthhttp"
)

const (
	// margin is how long before its end a token is renewed, at most.
	margin = time.Minute
	// freshFor is how long a token that the issuer refuses is not renewed: one that
	// the provider has just given will not become better by another one.
	freshFor = 5 * time.Minute
)

// ErrEnded is a login that cannot be renewed: the person has to log in again.
var ErrEnded = errors.New("the login has ended")

// Renew gets another token for l by its refresh token (RFC 6749 section 6). The
// error is ErrEnded if that is good no more; any other says nothing about it. A
// refresh token may be good only once: keep what comes of it.
func (c *Client) Renew(ctx context.Context, l Login) (Login, error) {
	if l.RefreshToken == "" {
		return Login{}, ErrEnded
	}
	p := l.Provider
	if err := p.check(); err != nil {
		return Login{}, err
	}
	answer, err := oauthhttp.PostForm(ctx, c.http, p.TokenEndpoint, c.userAgent, url.Values{
		"grant_type": {"refresh_token"}, "refresh_token": {l.RefreshToken}, "client_id": {p.ClientID},
	})
	if err != nil {
		return Login{}, fmt.Errorf("renew the login at %s: %w", p.Name, err)
	}
	var t tokens
	var refused *Error
	_, err = decode(p, answer, &t)
	switch {
	// A refusal has a code (RFC 6749 section 5.2). Without one it is a page of whatever
	// stands between, such as a hotel's network that wants a login of its own.
	case errors.As(err, &refused) && refused.Code != "" && !refused.temporary():
		return Login{}, fmt.Errorf("%w: %w", ErrEnded, refused)
	case err != nil:
		return Login{}, fmt.Errorf("renew the login: %w", err)
	}
	// OpenID Connect Core section 12.2: the answer might not contain an ID token.
	renewed, err := t.login(p, time.Now())
	if err != nil {
		return Login{}, fmt.Errorf("%w: %w", ErrEnded, err)
	}
	if renewed.RefreshToken == "" {
		renewed.RefreshToken = l.RefreshToken
	}
	return renewed, nil
}

// Store is where a login is kept.
type Store interface {
	// Load returns the login as it is kept now.
	Load() (Login, error)
	// Update keeps what change makes of the login as it is kept now, unless that fails.
	// No two run at once, not even of two processes: a refresh token may be good once.
	Update(ctx context.Context, change func(Login) (Login, error)) (Login, error)
}

// Source hands a kept login to a [client.TokenSource], and renews it when it has
// expired or the issuer refuses it.
type Source struct {
	client *Client
	store  Store
}

// NewSource makes a source. It leaves no connection open.
func NewSource(c *Client, store Store) *Source { return &Source{client: c, store: store} }

// Credential implements [client.Credentials]. While the provider cannot be asked, a
// token that seems to have expired is returned all the same: the issuer may know it
// still, and it is our clock that may be wrong.
func (s *Source) Credential(ctx context.Context, refused string) (client.Credential, error) {
	l, err := s.store.Load()
	if err != nil {
		return client.Credential{}, err
	}
	if l.RefreshToken == "" || !l.stale(refused, time.Now()) {
		return l.credential(), nil
	}
	renewed, err := s.store.Update(ctx, func(l Login) (Login, error) {
		if !l.stale(refused, time.Now()) {
			return l, nil // another process was faster
		}
		// The next time is many minutes away.
		defer s.client.Close()
		return s.client.Renew(ctx, l)
	})
	switch {
	case err == nil:
		return renewed.credential(), nil
	case errors.Is(err, ErrEnded):
		return client.Credential{}, fmt.Errorf("%w: run `ghostline login`", err)
	case refused == "" && ctx.Err() == nil:
		return l.credential(), nil
	}
	return client.Credential{}, err
}

// stale says whether l should be renewed. refused is a token that the issuer refused,
// or empty.
func (l *Login) stale(refused string, now time.Time) bool {
	if l.Token == refused {
		age := now.Sub(l.Obtained)
		return age < 0 || age >= freshFor
	}
	if l.Expires.IsZero() {
		return false
	}
	early := min(margin, l.Expires.Sub(l.Obtained)/10)
	return !now.Before(l.Expires.Add(-early))
}

func (l *Login) credential() client.Credential {
	return client.Credential{Value: l.Token, Type: l.Provider.Type}
}
