package compile

import (
	"cmp"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ghostline-dev/ghostline/api/v1alpha1"
	"github.com/ghostline-dev/ghostline/internal/token"
)

// The values of [Reference.Kind].
const (
	KindSecret    = "Secret"
	KindConfigMap = "ConfigMap"
)

// The values of [Reference.Holds].
const (
	HoldsCredential   = "credential"
	HoldsCertificates = "certificates"
	HoldsKeySet       = "key set"
	HoldsSubjects     = "denied subjects"
)

// Reference is an entry of a Secret or ConfigMap that a route refers to.
type Reference struct {
	// Kind is KindSecret or KindConfigMap.
	Kind      string
	Name, Key string
	// Path is the field that refers to it.
	Path string
	// Holds is one of the Holds constants: what the entry is to hold.
	Holds string
}

// Uses are the references that the config of a region needs, in the order of the
// route; none if the route lacks the region.
func Uses(route *v1alpha1.CompletionRoute, region string) []Reference {
	at := regionIndex(route, region)
	if at < 0 {
		return nil
	}
	var uses []Reference
	add := func(kind string, ref *v1alpha1.KeyRef, path, holds string) {
		if ref != nil {
			uses = append(uses, Reference{kind, ref.Name, ref.Key, path, holds})
		}
	}
	tokens := &route.Spec.Tokens
	add(KindConfigMap, tokens.KeySet.ConfigMapRef, pathKeySet+".configMapRef", HoldsKeySet)
	add(KindConfigMap, tokens.KeySet.CARef, pathKeySet+".caRef", HoldsCertificates)
	if tokens.DeniedSubjects != nil {
		add(KindConfigMap, &tokens.DeniedSubjects.ConfigMapRef, pathDenied+".configMapRef", HoldsSubjects)
	}
	served := append([]v1alpha1.RegionName{route.Spec.Regions[at].Name}, route.Spec.Regions[at].Failover...)
	for i := range route.Spec.Regions {
		r := &route.Spec.Regions[i]
		if !slices.Contains(served, r.Name) {
			continue
		}
		for j := range r.Units {
			unit, path := &r.Units[j], unitPath(r, &r.Units[j])
			add(KindSecret, unit.SecretRef, path+".secretRef", HoldsCredential)
			if unit.TLS != nil {
				add(KindConfigMap, unit.TLS.CARef, path+".tls.caRef", HoldsCertificates)
			}
		}
	}
	return uses
}

// Names are the names of the Secrets and ConfigMaps that the config of a region needs,
// sorted, each once.
func Names(route *v1alpha1.CompletionRoute, region string) (secrets, configMaps []string) {
	for _, use := range Uses(route, region) {
		if use.Kind == KindSecret {
			secrets = append(secrets, use.Name)
		} else {
			configMaps = append(configMaps, use.Name)
		}
	}
	slices.Sort(secrets)
	slices.Sort(configMaps)
	return slices.Compact(secrets), slices.Compact(configMaps)
}

// refusal is why a reference cannot be used.
type refusal struct{ reason, message string }

// resolve returns the entry that a reference names.
func (r References) resolve(kind string, ref *v1alpha1.KeyRef) ([]byte, *refusal) {
	var (
		value  []byte
		keys   []string
		exists bool
		found  bool
	)
	if kind == KindSecret {
		var entries map[string][]byte
		entries, exists = r.Secrets[ref.Name]
		value, found = entries[ref.Key]
		keys = slices.Sorted(maps.Keys(entries))
	} else {
		var entries map[string]string
		entries, exists = r.ConfigMaps[ref.Name]
		var text string
		text, found = entries[ref.Key]
		value, keys = []byte(text), slices.Sorted(maps.Keys(entries))
	}
	switch {
	case !exists:
		return nil, &refusal{v1alpha1.ReasonRefNotFound, fmt.Sprintf("there is no %s %q in the route's namespace; create it", kind, ref.Name)}
	case !found:
		return nil, &refusal{v1alpha1.ReasonRefKeyNotFound, fmt.Sprintf("the %s %q has no entry %q; it has %s", kind, ref.Name, ref.Key, cmp.Or(strings.Join(keys, ", "), "none"))}
	}
	return value, nil
}

// maxCredential is the longest credential that a proxy takes.
const maxCredential = 8 << 10

// usable says what is wrong with an entry for what it is to hold. It never tells what
// the entry holds.
func usable(holds string, value []byte) string {
	switch holds {
	case HoldsCredential:
		// As a proxy reads it: without the line end that editors leave.
		text := strings.TrimRight(string(value), "\r\n")
		if text == "" || len(text) > maxCredential || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' }) {
			return fmt.Sprintf("must hold the unit's key: 1 to %d visible ASCII characters, in one line", maxCredential)
		}
	case HoldsCertificates:
		if !x509.NewCertPool().AppendCertsFromPEM(value) {
			return "must hold at least one certificate in PEM form, which begins with -----BEGIN CERTIFICATE-----"
		}
	case HoldsKeySet:
		if _, err := token.ParseKeySet(value); err != nil {
			return fmt.Sprintf("must hold the issuer's public keys, as /.well-known/jwks.json of the issuer has them: %s", err)
		}
	}
	return ""
}

// entry returns the entry that a reference names, if it can be used.
func (c *compiler) entry(kind string, ref *v1alpha1.KeyRef, holds string) ([]byte, *refusal) {
	value, refused := c.refs.resolve(kind, ref)
	if refused != nil {
		return nil, refused
	}
	if wrong := usable(holds, value); wrong != "" {
		return nil, &refusal{v1alpha1.ReasonRefInvalid, fmt.Sprintf("the entry %q of the %s %q %s", ref.Key, kind, ref.Name, wrong)}
	}
	return value, nil
}

// file puts the entry of a ConfigMap beside the config and returns the file's name,
// which tells of the content.
func (c *compiler) file(ref *v1alpha1.KeyRef, holds string) (string, *refusal) {
	value, refused := c.entry(KindConfigMap, ref, holds)
	if refused != nil {
		return "", refused
	}
	form := map[string]string{HoldsCertificates: "ca-%s.crt", HoldsKeySet: "keys-%s.json", HoldsSubjects: "denied-%s.txt"}[holds]
	name := fmt.Sprintf(form, contentName(value))
	c.files[name] = value
	return name, nil
}

// contentName tells contents apart.
func contentName(value []byte) string {
	sum := sha256.Sum256(value)
	return hex.EncodeToString(sum[:4])
}
