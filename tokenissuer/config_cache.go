package tokenissuer

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/ghostline-dev/ghostline/tokenissuer/identity"
)

// CacheConfig is what is remembered of a provider's answers. What is zero is the
// default of identity.CacheOptions.
type CacheConfig struct {
	// Life is how long an answer is good for: within it, what the provider withdraws is
	// noticed.
	Life Duration `json:"life"`
	// Stale is how old an answer may get while the provider is out; Life is never.
	Stale Duration `json:"stale"`
	// Negative is how long a credential that nobody knows is not asked about again.
	Negative Duration `json:"negative"`
	// Entries is how many credentials are remembered.
	Entries int `json:"entries"`
}

const (
	maxInFlight = 1000
	maxEntries  = 10_000_000
)

// cacheOptions of a provider, without its defaults.
func (p *ProviderConfig) cacheOptions() identity.CacheOptions {
	return identity.CacheOptions{
		Life: time.Duration(p.Cache.Life), Stale: time.Duration(p.Cache.Stale), Negative: time.Duration(p.Cache.Negative),
		Entries: p.Cache.Entries, Timeout: time.Duration(p.Timeout), InFlight: p.InFlight,
	}
}

// checkCache is of providers that are asked over the network.
func (p *ProviderConfig) checkCache(field string) error {
	life, stale := time.Duration(p.Cache.Life), time.Duration(p.Cache.Stale)
	if life == 0 {
		life = identity.DefaultCacheLife
	}
	if stale == 0 {
		stale = identity.DefaultCacheStale
	}
	var problems []error
	for _, d := range []struct {
		name               string
		value, least, most time.Duration
	}{
		{"timeout", time.Duration(p.Timeout), 100 * time.Millisecond, 30 * time.Second},
		{"cache.life", life, time.Minute, 24 * time.Hour},
		{"cache.stale", stale, life, 7 * 24 * time.Hour},
		{"cache.negative", time.Duration(p.Cache.Negative), time.Second, 10 * time.Minute},
	} {
		if d.value != 0 && (d.value < d.least || d.value > d.most) {
			problems = append(problems, fmt.Errorf("%s.%s: %v is not between %v and %v", field, d.name, d.value, d.least, d.most))
		}
	}
	for _, n := range []struct {
		name        string
		value, most int
	}{{"inFlight", p.InFlight, maxInFlight}, {"cache.entries", p.Cache.Entries, maxEntries}} {
		if n.value < 0 || n.value > n.most {
			problems = append(problems, fmt.Errorf("%s.%s: %d is not between 1 and %d", field, n.name, n.value, n.most))
		}
	}
	return errors.Join(problems...)
}

// checkNoCache is of providers that are not asked over the network.
func (p *ProviderConfig) checkNoCache(field string) error {
	if p.Cache != (CacheConfig{}) || p.Timeout != 0 || p.InFlight != 0 {
		return fmt.Errorf("%s: a provider of type %s is never waited for; leave cache, timeout and inFlight out", field, p.Type)
	}
	return nil
}

// cached puts the cache before a provider.
func cached(p ProviderConfig, provider identity.Provider, log *slog.Logger, m *providerMetrics) identity.Provider {
	o := p.cacheOptions()
	o.Log, o.Observer = log, m.of(p.Name)
	return identity.NewCached(provider, o)
}
