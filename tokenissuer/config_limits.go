package tokenissuer

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
)

const (
	maxTrustedEdges = 64
	maxRate         = 1_000_000
)

// LimitsConfig bounds how often a client may ask for a token. What is zero is a default.
type LimitsConfig struct {
	// PerAddress is for each IPv4 address, and for each /64 of IPv6, which is what one
	// customer has. Many users may be behind one.
	PerAddress RateConfig `json:"perAddress"`
	// PerCredential is for all that ask with the same credential: one user's editors.
	PerCredential RateConfig `json:"perCredential"`
}

// RateConfig is a token bucket.
type RateConfig struct {
	RequestsPerSecond float64 `json:"requestsPerSecond"`
	// Burst is how many may come at once.
	Burst int `json:"burst"`
}

// WithDefaults has a default for each value that is zero.
func (c LimitsConfig) WithDefaults() LimitsConfig {
	c.PerAddress.setDefaults(RateConfig{RequestsPerSecond: 100, Burst: 1000})
	c.PerCredential.setDefaults(RateConfig{RequestsPerSecond: 1, Burst: 60})
	return c
}

func (c *RateConfig) setDefaults(defaults RateConfig) {
	c.RequestsPerSecond = cmp.Or(c.RequestsPerSecond, defaults.RequestsPerSecond)
	c.Burst = cmp.Or(c.Burst, defaults.Burst)
}

func (c LimitsConfig) check() error {
	var problems []error
	c = c.WithDefaults()
	for _, bucket := range []struct {
		field string
		RateConfig
	}{{"limits.perAddress", c.PerAddress}, {"limits.perCredential", c.PerCredential}} {
		if r := bucket.RequestsPerSecond; r < 0 || r > maxRate {
			problems = append(problems, fmt.Errorf("%s.requestsPerSecond: %v is not above 0 and at most %d", bucket.field, r, maxRate))
		}
		if b := bucket.Burst; b < 0 || b > maxRate {
			problems = append(problems, fmt.Errorf("%s.burst: %d is not between 1 and %d", bucket.field, b, maxRate))
		}
	}
	return errors.Join(problems...)
}

func (c *Config) checkTrustedEdges() (problems []error) {
	if len(c.TrustedEdges) > maxTrustedEdges {
		return []error{fmt.Errorf("trustedEdges: there are %d, more than %d", len(c.TrustedEdges), maxTrustedEdges)}
	}
	for i, network := range c.TrustedEdges {
		if _, err := netip.ParsePrefix(network); err != nil {
			problems = append(problems, fmt.Errorf("trustedEdges[%d]: %q is no network; it must be an address and a prefix length, such as 10.0.0.0/8", i, network))
		}
	}
	return problems
}
