package config

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/ghostline-dev/ghostline/internal/strictyaml"
)

// MaxBytes bounds an encoded config: what a ConfigMap can hold.
const MaxBytes = 1 << 20

// Decode reads a config in YAML or JSON, sets defaults and validates it. Any
// field that it does not know is an error. Tools decode so.
func Decode(data []byte) (*Config, error) {
	c, unknown, err := decode(data)
	if err != nil {
		return nil, err
	}
	units, _ := c.badUnits()
	return c, errors.Join(errors.Join(unknown...), c.check(), errors.Join(units...), c.badMutations())
}

// DecodeLenient is Decode for a proxy, so that an older one survives a newer
// operator: fields that it does not know are returned rather than refused, units
// that it cannot use (see [Config.CheckUnit]) are let pass, unless no other is
// left, and so are mutations (see [Config.CheckMutation]). A field that stands
// twice is refused by both.
func DecodeLenient(data []byte) (c *Config, unknown []error, err error) {
	c, unknown, err = decode(data)
	if err != nil {
		return nil, nil, err
	}
	err = c.check()
	if units, all := c.badUnits(); all {
		err = errors.Join(err, errors.Join(units...))
	}
	if err != nil {
		// A misspelt field may be why.
		return nil, nil, errors.Join(err, errors.Join(unknown...))
	}
	return c, unknown, nil
}

// Hash names the content of an encoded config: its SHA-256 in hexadecimal.
func Hash(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

func decode(data []byte) (*Config, []error, error) {
	if len(data) > MaxBytes {
		return nil, nil, fmt.Errorf("it is %d bytes long; at most %d are allowed", len(data), MaxBytes)
	}
	c := new(Config)
	unknown, err := strictyaml.DecodeLenient(data, c)
	if err != nil {
		return nil, nil, err
	}
	c.SetDefaults()
	return c, unknown, nil
}
