package load

import (
	"context"
	"sync"

	"github.com/ghostline-dev/ghostline/client"
)

// StaticKey is a key that is never refreshed, as model servers take one.
func StaticKey(key string) client.Tokens { return staticKey(key) }

type staticKey string

func (k staticKey) Token(context.Context) (string, error) { return string(k), nil }
func (k staticKey) Invalidate(string)                     {}

// source counts the tokens that come from one.
type source struct {
	tokens client.Tokens

	mu        sync.Mutex
	last      string
	refreshed int64
}

func (s *source) token(ctx context.Context) (string, error) {
	token, err := s.tokens.Token(ctx)
	if err != nil {
		return "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last != "" && s.last != token {
		s.refreshed++
	}
	s.last = token
	return token, nil
}

func (s *source) refreshes() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refreshed
}
