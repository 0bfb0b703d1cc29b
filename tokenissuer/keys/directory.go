package keys

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"github.com/ghostline-dev/ghostline/internal/token"
)

const (
	// timeFormat sorts by name as by time. Names say when a key was made,
	// because a file's own times do not survive a copy or a restore.
	timeFormat = "20060102T150405.000Z"
	pemType    = "PRIVATE KEY"
	// maxFileBytes is far above what an Ed25519 key takes.
	maxFileBytes = 4 << 10

	othersMayAnything fs.FileMode = 0o077
	othersMayWrite    fs.FileMode = 0o022
)

// fileName is TIME-KID.pem.
var fileName = regexp.MustCompile(`^\d{8}T\d{6}\.\d{3}Z-([A-Za-z0-9_-]{43})\.pem$`)

// OpenDirectory returns the keys that are in a directory, one PKCS #8 PEM file
// each. The newest signs. An absent or empty directory gets a first key, made
// at the time now.
//
// One process at a time uses a directory. A file that is no key, or that others
// may read, is an error and not skipped: a signer that quietly is not the one
// that was meant shows only when tokens are refused.
func OpenDirectory(path string, now time.Time) (Ring, error) {
	ring, err := openDirectory(path, now)
	if err != nil {
		return Ring{}, fmt.Errorf("signing keys: %w", err)
	}
	return ring, nil
}

func openDirectory(path string, now time.Time) (Ring, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return Ring{}, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return Ring{}, err
	}
	if info.Mode()&othersMayWrite != 0 {
		return Ring{}, fmt.Errorf("%s: others may put keys there (mode %v); chmod 700 it", path, info.Mode().Perm())
	}
	files, err := keyFiles(path)
	if err != nil {
		return Ring{}, err
	}
	if len(files) == 0 {
		file, err := create(path, now)
		if err != nil {
			return Ring{}, err
		}
		files = []string{file}
	}
	return load(files)
}

// keyFiles are the directory's *.pem files, oldest first.
func keyFiles(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir) // sorted by name
	if err != nil {
		return nil, err
	}
	var files []string
	for _, entry := range entries {
		if filepath.Ext(entry.Name()) == ".pem" {
			files = append(files, filepath.Join(dir, entry.Name()))
		}
	}
	return files, nil
}

func load(files []string) (Ring, error) {
	var signer token.Signer
	public := make([]ed25519.PublicKey, 0, len(files))
	for _, file := range files {
		key, err := read(file)
		if err != nil {
			return Ring{}, fmt.Errorf("%s: %w", file, err)
		}
		signer = key
		public = append(public, key.Key.Public().(ed25519.PublicKey))
	}
	return Ring{Signer: signer, Public: token.NewKeySet(public...)}, nil
}

func read(file string) (token.Signer, error) {
	name := fileName.FindStringSubmatch(filepath.Base(file))
	if name == nil {
		return token.Signer{}, errors.New("the name must be TIME-KID.pem, as in 20261130T144200.000Z-<RFC 7638 thumbprint>.pem; move other files away")
	}
	content, err := readPrivate(file)
	if err != nil {
		return token.Signer{}, err
	}
	block, _ := pem.Decode(content)
	if block == nil || block.Type != pemType {
		return token.Signer{}, fmt.Errorf("it is no PEM file with a %s block", pemType)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return token.Signer{}, errors.New("it holds no PKCS #8 key")
	}
	key, ok := parsed.(ed25519.PrivateKey)
	if !ok {
		return token.Signer{}, fmt.Errorf("it holds a key of type %T; only Ed25519 signs", parsed)
	}
	id := token.Thumbprint(key.Public().(ed25519.PublicKey))
	if id != name[1] {
		return token.Signer{}, fmt.Errorf("it holds the key %s, which is not the one in its name", id)
	}
	return token.Signer{KeyID: id, Key: key}, nil
}

// readPrivate reads a small regular file that only its owner may use.
func readPrivate(file string) ([]byte, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	switch {
	case !info.Mode().IsRegular():
		return nil, errors.New("it is no regular file")
	case info.Mode()&othersMayAnything != 0:
		return nil, fmt.Errorf("others may use this signing key (mode %v); chmod 600 it, and replace the key if they could have read it", info.Mode().Perm())
	case info.Size() > maxFileBytes:
		return nil, fmt.Errorf("it has more than %d bytes", maxFileBytes)
	}
	return os.ReadFile(file)
}

// create makes a key and its file, which appears whole or not at all.
func create(dir string, now time.Time) (string, error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return "", err
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return "", err
	}
	content := pem.EncodeToMemory(&pem.Block{Type: pemType, Bytes: der})
	file := filepath.Join(dir, now.UTC().Format(timeFormat)+"-"+token.Thumbprint(public)+".pem")
	if err := writeAtomically(file, content); err != nil {
		return "", err
	}
	return file, nil
}

// writeAtomically leaves either nothing or the whole file, also if the machine
// stops in between: content and name are both synced.
func writeAtomically(file string, content []byte) error {
	temporary, err := writeTemporary(filepath.Dir(file), content)
	if err != nil {
		return err
	}
	if err := os.Rename(temporary, file); err != nil {
		return errors.Join(err, os.Remove(temporary))
	}
	return syncDirectory(filepath.Dir(file))
}

// writeTemporary writes a file with mode 0600 that does not count as a key yet.
func writeTemporary(dir string, content []byte) (string, error) {
	file, err := os.CreateTemp(dir, ".new-*")
	if err != nil {
		return "", err
	}
	_, err = file.Write(content)
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return "", errors.Join(err, os.Remove(file.Name()))
	}
	return file.Name(), nil
}

func syncDirectory(dir string) error {
	opened, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(opened.Sync(), opened.Close())
}
