package identity

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ClaimRules say what becomes of the claims that an OpenID provider makes of a user. A
// claim is named by its name, or by a JSON pointer (RFC 6901) if it lies deeper, as in
// /realm_access/roles.
type ClaimRules struct {
	// Subject is the claim that is the user's id; "" is sub.
	Subject string
	// Organizations and Teams are claims with a name or a list of them; "" is none.
	Organizations, Teams string
	// Keep are claims that entitlements may ask for.
	Keep []string
	// Require are claims of which the user must have one of the values each.
	Require map[string][]string
}

// maxClaimValues bounds the values of one claim. Values that are too many are refused
// and not cut off: what denies the user may be among those that would be lost.
const maxClaimValues = 512

// claimSet is a JSON object with each name once.
type claimSet map[string]json.RawMessage

// parseClaims refuses what two readers could read in two ways.
func parseClaims(data []byte) (claimSet, error) {
	var set claimSet
	if err := decodeStrict(data, &set); err != nil {
		return nil, err
	}
	if set == nil {
		return nil, errors.New("it is null")
	}
	return set, nil
}

// raw is the claim of that name or pointer, nil if there is none. null is none.
func (s claimSet) raw(name string) (json.RawMessage, error) {
	path := []string{name}
	if strings.HasPrefix(name, "/") {
		path = strings.Split(name[1:], "/")
		for i, part := range path {
			path[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(part)
		}
	}
	found, err := s.at(path)
	if err != nil {
		return nil, fmt.Errorf("%s lies in no object with each name once", name)
	}
	if found = bytes.TrimSpace(found); string(found) == "null" {
		return nil, nil
	}
	return found, nil
}

func (s claimSet) at(path []string) (json.RawMessage, error) {
	found := s[path[0]]
	if len(path) == 1 || found == nil {
		return found, nil
	}
	inner, err := parseClaims(found)
	if err != nil {
		return nil, err
	}
	return inner.at(path[1:])
}

// text is a claim that is a string; "" is none.
func (s claimSet) text(name string) (string, error) {
	raw, err := s.raw(name)
	if raw == nil || err != nil {
		return "", err
	}
	var text string
	if json.Unmarshal(raw, &text) != nil {
		return "", fmt.Errorf("%s is no string", name)
	}
	return text, nil
}

// values are a claim's: of a string, number or boolean its text, of a list those of its
// entries.
func (s claimSet) values(name string) ([]string, error) {
	raw, err := s.raw(name)
	if len(raw) == 0 || err != nil {
		return nil, err
	}
	items := []json.RawMessage{raw}
	if raw[0] == '[' {
		items = nil
		if err := json.Unmarshal(raw, &items); err != nil {
			return nil, fmt.Errorf("%s is no list", name)
		}
	}
	if len(items) > maxClaimValues {
		return nil, fmt.Errorf("%s has more than %d values", name, maxClaimValues)
	}
	values := make([]string, 0, len(items))
	for _, item := range items {
		value, ok := scalar(item)
		if !ok {
			return nil, fmt.Errorf("%s has a value that is no string, number or boolean", name)
		}
		values = append(values, value)
	}
	return values, nil
}

func scalar(raw json.RawMessage) (string, bool) {
	raw = bytes.TrimSpace(raw)
	switch raw[0] {
	case '{', '[', 'n':
		return "", false
	case '"':
		var text string
		return text, json.Unmarshal(raw, &text) == nil
	}
	return string(raw), true
}

// identity is who the claims are about, for the provider of that name. The error says
// why they are nobody here, without any value of a claim.
func (r ClaimRules) identity(provider string, claims claimSet) (Identity, error) {
	if err := r.check(claims); err != nil {
		return Identity{}, err
	}
	subject, err := r.subject(claims)
	if err != nil {
		return Identity{}, err
	}
	who := Identity{Subject: provider + ":" + subject}
	if who.Organizations, err = names(claims, r.Organizations); err != nil {
		return Identity{}, err
	}
	if who.Teams, err = names(claims, r.Teams); err != nil {
		return Identity{}, err
	}
	for _, name := range r.Keep {
		values, err := claims.values(name)
		if err != nil {
			return Identity{}, err
		}
		if values != nil {
			if who.Claims == nil {
				who.Claims = make(map[string][]string, len(r.Keep))
			}
			who.Claims[name] = values
		}
	}
	return who, nil
}

func (r ClaimRules) check(claims claimSet) error {
	for name, allowed := range r.Require {
		values, err := claims.values(name)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(values, func(value string) bool { return slices.Contains(allowed, value) }) {
			return fmt.Errorf("%s has none of the required values", name)
		}
	}
	return nil
}

func (r ClaimRules) subject(claims claimSet) (string, error) {
	name := r.Subject
	if name == "" {
		name = "sub"
	}
	values, err := claims.values(name)
	switch {
	case err != nil:
		return "", err
	case len(values) != 1 || !idPattern.MatchString(values[0]):
		return "", fmt.Errorf("%s is not 1 to 255 visible ASCII characters", name)
	case strings.Contains(values[0], "@"):
		return "", fmt.Errorf("%s may be an e-mail address, which no subject may be; name another claim", name)
	}
	return values[0], nil
}

// names are a claim's values as Identity has organizations and teams. Keycloak puts a
// slash in front of a group's path.
func names(claims claimSet, claim string) ([]string, error) {
	if claim == "" {
		return nil, nil
	}
	values, err := claims.values(claim)
	for i, value := range values {
		values[i] = strings.ToLower(strings.TrimPrefix(value, "/"))
	}
	return values, err
}
