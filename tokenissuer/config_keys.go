package tokenissuer

import (
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/ghostline-dev/ghostline/tokenissuer/keys"
)

const (
	minPropagation = 2 * time.Second
	maxPropagation = 24 * time.Hour
	maxRotateEvery = 365 * 24 * time.Hour
	// maxKeySetAge is for how long a cache may keep the key set, at most. With the
	// time between two fetches of a proxy it bounds how long a key that is withdrawn
	// goes on to be taken for good.
	maxKeySetAge = 30 * time.Second
)

// KeysConfig says where the signing keys are, and how they follow one another. One
// of Directory and Secret is required.
type KeysConfig struct {
	// Directory holds the keys of one issuer, and gets a first one if it is empty or
	// absent.
	Directory string `json:"directory"`
	// Secret is the name of a Kubernetes Secret in the issuer's own namespace, for
	// one issuer or more. It gets a first key if it is empty or absent.
	Secret string `json:"secret"`
	// RotateEvery is for how long a key signs; zero is keys.DefaultRotateEvery.
	RotateEvery Duration `json:"rotateEvery"`
	// Propagation is the longest time in which everybody who checks tokens learns of
	// a new key. It is published for twice as long before it signs. Zero is
	// keys.DefaultPropagation.
	Propagation Duration `json:"propagation"`
}

// secretName is a DNS subdomain, as names of Secrets must be.
var secretName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$`)

func (c *Config) checkKeys() []error {
	var problems []error
	switch k := c.Keys; {
	case k.Directory == "" && k.Secret == "":
		problems = append(problems, errors.New("keys: directory is missing; name a directory that only the issuer can read, or a Kubernetes secret"))
	case k.Directory != "" && k.Secret != "":
		problems = append(problems, errors.New("keys: there are both directory and secret; the keys can be in one of them only"))
	case k.Secret != "" && !secretName.MatchString(k.Secret):
		problems = append(problems, errors.New("keys.secret: it must be the name of a Secret in the issuer's namespace: lower-case letters, digits, dashes and dots"))
	}
	policy := c.keyPolicy()
	if policy.Propagation < minPropagation || policy.Propagation > maxPropagation {
		return append(problems, fmt.Errorf("keys.propagation: %v is not between %v and %v", policy.Propagation, minPropagation, maxPropagation))
	}
	if least := policy.MinRotateEvery(); policy.RotateEvery < least || policy.RotateEvery > maxRotateEvery {
		problems = append(problems, fmt.Errorf("keys.rotateEvery: %v is not between %v (3 times keys.propagation, tokenLife and 30s, so that one rotation ends before the next begins) and %v",
			policy.RotateEvery, least, maxRotateEvery))
	}
	return problems
}

func (c *Config) keyPolicy() keys.Policy {
	p := keys.Policy{RotateEvery: time.Duration(c.Keys.RotateEvery), Propagation: time.Duration(c.Keys.Propagation), TokenLife: c.tokenLife()}
	if p.RotateEvery == 0 {
		p.RotateEvery = keys.DefaultRotateEvery
	}
	if p.Propagation == 0 {
		p.Propagation = keys.DefaultPropagation
	}
	return p
}

// keySetAge is for how long the key set may be kept: a part of the propagation,
// the rest of which is for the fetch.
func (c *Config) keySetAge() time.Duration {
	return min(maxKeySetAge, c.keyPolicy().Propagation/4).Truncate(time.Second)
}
