package routefile

import (
	"embed"
	"fmt"
	"regexp"

	"github.com/ghostline-dev/ghostline/controllers/compile"
)

// placeholders are a certificate and a key set whose keys were never kept, so that
// nobody is let in by them.
//
//go:embed placeholder
var placeholders embed.FS

// AddPlaceholders adds to the references what the config of a region needs of Secrets
// and ConfigMaps that no file has, so that the rest can be tried without them. It
// returns those references. An object that is there is left as it is.
func (c *Content) AddPlaceholders(region string) ([]compile.Reference, error) {
	missing := map[string]bool{}
	var added []compile.Reference
	for _, use := range compile.Uses(c.Route, region) {
		object := use.Kind + "/" + use.Name
		if !missing[object] && c.has(use) {
			continue
		}
		missing[object] = true
		value, err := placeholder(use)
		if err != nil {
			return nil, err
		}
		if use.Kind == compile.KindSecret {
			put(c.References.Secrets, use, value)
		} else {
			put(c.References.ConfigMaps, use, string(value))
		}
		added = append(added, use)
	}
	return added, nil
}

func (c *Content) has(use compile.Reference) bool {
	_, secret := c.References.Secrets[use.Name]
	_, configMap := c.References.ConfigMaps[use.Name]
	return use.Kind == compile.KindSecret && secret || use.Kind == compile.KindConfigMap && configMap
}

func put[V any](objects map[string]map[string]V, use compile.Reference, value V) {
	if objects[use.Name] == nil {
		objects[use.Name] = map[string]V{}
	}
	objects[use.Name][use.Key] = value
}

// notInName are the characters that a credential must not hold.
var notInName = regexp.MustCompile(`[^ -~]`)

// placeholder is what takes the place of an entry.
func placeholder(use compile.Reference) ([]byte, error) {
	switch use.Holds {
	case compile.HoldsCertificates:
		return placeholders.ReadFile("placeholder/ca.crt")
	case compile.HoldsKeySet:
		return placeholders.ReadFile("placeholder/keys.json")
	case compile.HoldsSubjects:
		return []byte("# A placeholder: nobody is denied.\n"), nil
	}
	return fmt.Appendf(nil, "placeholder for the entry %s of the Secret %s", notInName.ReplaceAllString(use.Key, "?"), notInName.ReplaceAllString(use.Name, "?")), nil
}
