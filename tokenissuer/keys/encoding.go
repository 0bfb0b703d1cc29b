package keys

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/ghostline-dev/ghostline/internal/token"
)

// A store is a flat set of small entries, files or entries of a Secret: one for
// each key, and one that asks for a rotation. An entry's content never changes.
// What changes is said by its name, so that a key that is withdrawn, by taking
// its entry away, is not written anew by who was about to change it.
const (
	// RotateEntry is there while a rotation is asked for; its content is nothing.
	RotateEntry = "rotate"
	// KeySuffix is what the name of a key's entry ends in.
	KeySuffix = ".pem"
	// MaxEntryBytes is far above what an Ed25519 key takes.
	MaxEntryBytes = 4 << 10

	// timeFormat sorts by name as by time. Names say when a key was made,
	// because a file's own times do not survive a copy or a restore.
	timeFormat = "20060102T150405.000Z"
	pemType    = "PRIVATE KEY"
)

// entryName is MADE-KID.pem, or MADE-KID-SIGNS.pem of a key that signs or has.
var entryName = regexp.MustCompile(`^(\d{8}T\d{6}\.\d{3}Z)-([A-Za-z0-9_-]{43})(?:-(\d{8}T\d{6}\.\d{3}Z))?\.pem$`)

// EntryName is the name of the key's entry in a store.
func (k *Key) EntryName() string {
	name := k.Made.UTC().Format(timeFormat) + "-" + k.KeyID
	if !k.waits() {
		name += "-" + k.Signs.UTC().Format(timeFormat)
	}
	return name + KeySuffix
}

// Encode is the content of the key's entry, PKCS #8 in PEM.
func (k *Key) Encode() ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(k.Key)
	if err != nil {
		return nil, fmt.Errorf("encode a signing key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: pemType, Bytes: der}), nil
}

// DecodeKey reads a key from its entry.
func DecodeKey(name string, content []byte) (Key, error) {
	parts := entryName.FindStringSubmatch(name)
	if parts == nil {
		return Key{}, errors.New("the name must be TIME-KID.pem or TIME-KID-TIME.pem, as in 20261130T144200.000Z-<RFC 7638 thumbprint>.pem; move other files away")
	}
	var key Key
	var err error
	if key.Made, err = time.Parse(timeFormat, parts[1]); err == nil && parts[3] != "" {
		key.Signs, err = time.Parse(timeFormat, parts[3])
	}
	if err != nil {
		return Key{}, errors.New("a time in its name is none")
	}
	if len(content) > MaxEntryBytes {
		return Key{}, fmt.Errorf("it has more than %d bytes", MaxEntryBytes)
	}
	if key.Key, err = decodePrivate(content); err != nil {
		return Key{}, err
	}
	key.KeyID = token.Thumbprint(key.Key.Public().(ed25519.PublicKey))
	if key.KeyID != parts[2] {
		return Key{}, fmt.Errorf("it holds the key %s, which is not the one in its name", key.KeyID)
	}
	return key, nil
}

func decodePrivate(content []byte) (ed25519.PrivateKey, error) {
	block, _ := pem.Decode(content)
	if block == nil || block.Type != pemType {
		return nil, fmt.Errorf("it is no PEM file with a %s block", pemType)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, errors.New("it holds no PKCS #8 key")
	}
	key, ok := parsed.(ed25519.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("it holds a key of type %T; only Ed25519 signs", parsed)
	}
	return key, nil
}

// Decode reads a store's entries. read returns an entry's content; what it fails
// at is broken.
func Decode(names []string, version string, read func(name string) ([]byte, error)) State {
	s := State{Version: version, Broken: map[string]error{}}
	for _, name := range names {
		switch {
		case name == RotateEntry:
			s.RotationAsked = true
		case strings.HasSuffix(name, KeySuffix):
			content, err := read(name)
			var key Key
			if err == nil {
				key, err = DecodeKey(name, content)
			}
			if err != nil {
				s.Broken[name] = err
				continue
			}
			s.Keys = append(s.Keys, key)
		}
	}
	s.sort()
	s.dropTwins()
	return s
}

// dropTwins takes a key that is there twice for one that is, and the other for
// broken: who withdraws it must take both away.
func (s *State) dropTwins() {
	known := map[string]bool{}
	s.Keys = slices.DeleteFunc(s.Keys, func(k Key) bool {
		if known[k.KeyID] {
			s.Broken[k.EntryName()] = errors.New("its key is also there under another name; remove one of the two")
			return true
		}
		known[k.KeyID] = true
		return false
	})
}

// Changes are the entries to put, to rename and to remove for a store to come from
// one state to another.
type Changes struct {
	Put    []Key
	Rename map[string]string // from, to
	Remove []string
}

// Diff returns what tells two states apart.
func Diff(from, to State) Changes {
	c := Changes{Rename: map[string]string{}}
	old := map[string]string{} // name by key id
	for _, k := range from.Keys {
		old[k.KeyID] = k.EntryName()
	}
	for _, k := range to.Keys {
		was, known := old[k.KeyID]
		switch name := k.EntryName(); {
		case !known:
			c.Put = append(c.Put, k)
		case was != name:
			c.Rename[was] = name
		}
		delete(old, k.KeyID)
	}
	for _, k := range from.Keys {
		if name, gone := old[k.KeyID]; gone {
			c.Remove = append(c.Remove, name)
		}
	}
	if from.RotationAsked && !to.RotationAsked {
		c.Remove = append(c.Remove, RotateEntry)
	}
	return c
}

// Empty is true if the two states are alike.
func (c *Changes) Empty() bool { return len(c.Put)+len(c.Rename)+len(c.Remove) == 0 }
