package keys

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ghostline-dev/ghostline/internal/token"
	"github.com/google/go-cmp/cmp"
)

// open is what an issuer that starts on a directory has for keys, and then ends.
func open(t *testing.T, dir string) *Ring {
	t.Helper()
	ring, err := tryOpen(t, dir)
	if err != nil {
		t.Fatal(err)
	}
	return ring
}

func tryOpen(t *testing.T, dir string) (*Ring, error) {
	t.Helper()
	store, err := OpenDirectory(dir, discard)
	if err != nil {
		return nil, err
	}
	defer store.Close()
	keeper, err := Open(t.Context(), store, testPolicy, discard)
	if err != nil {
		return nil, err
	}
	return keeper.Ring(), nil
}

func onlyFile(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 1 {
		t.Fatalf("%d files in the directory, want the key alone: %v", len(entries), entries)
	}
	return filepath.Join(dir, entries[0].Name())
}

func TestFirstStartMakesAKeyThatSurvives(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "keys*[")
	first := open(t, dir)
	for path, want := range map[string]os.FileMode{dir: 0o700, onlyFile(t, dir): 0o600} {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != want {
			t.Errorf("%s has mode %v, want %v", path, info.Mode().Perm(), want)
		}
	}
	again := open(t, dir)
	if again.Signer.KeyID != first.Signer.KeyID || !again.Signer.Key.Equal(first.Signer.Key) {
		t.Error("the key is another one after a restart")
	}
	if diff := cmp.Diff([]string{first.Signer.KeyID}, again.Public.IDs()); diff != "" {
		t.Errorf("published (-want +got):\n%s", diff)
	}
	if public, _ := again.Public.Key(first.Signer.KeyID); token.Thumbprint(public) != first.Signer.KeyID {
		t.Errorf("kid %s is not the thumbprint", first.Signer.KeyID)
	}
}

// TestLastToSignSignsAndAllArePublished puts a key there that began to sign later.
func TestLastToSignSignsAndAllArePublished(t *testing.T) { synctest.Test(t, lastToSign) }

func lastToSign(t *testing.T) {
	dir, later := t.TempDir(), t.TempDir()
	old := open(t, dir)
	time.Sleep(2 * time.Millisecond) // the resolution of names, in the bubble's time
	newer := open(t, later)
	file := onlyFile(t, later)
	if err := os.Rename(file, filepath.Join(dir, filepath.Base(file))); err != nil {
		t.Fatal(err)
	}
	// Neither the file's own time nor a leftover of a write that broke off counts.
	if err := os.Chtimes(filepath.Join(dir, filepath.Base(file)), time.Now(), time.Now().AddDate(-1, 0, 0)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, ".new-123"), []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	both := open(t, dir)
	if both.Signer.KeyID != newer.Signer.KeyID {
		t.Errorf("%s signs, want the last that began to, %s", both.Signer.KeyID, newer.Signer.KeyID)
	}
	for _, id := range []string{old.Signer.KeyID, newer.Signer.KeyID} {
		if _, ok := both.Public.Key(id); !ok {
			t.Errorf("key %s is not published", id)
		}
	}
}

func TestOpenDirectoryRefuses(t *testing.T) {
	write := func(content []byte) func(*testing.T, string) {
		return func(t *testing.T, file string) {
			if err := os.WriteFile(file, content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	rename := func(name string) func(*testing.T, string) {
		return func(t *testing.T, file string) {
			if err := os.Rename(file, filepath.Join(filepath.Dir(file), name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	chmod := func(mode os.FileMode, path func(string) string) func(*testing.T, string) {
		return func(t *testing.T, file string) {
			if err := os.Chmod(path(file), mode); err != nil {
				t.Fatal(err)
			}
		}
	}
	self := func(file string) string { return file }
	for name, tc := range map[string]struct {
		harm func(*testing.T, string)
		want string
	}{
		"file read by the group":   {chmod(0o640, self), "chmod 600"},
		"file read by all":         {chmod(0o644, self), "chmod 600"},
		"directory written by all": {chmod(0o777, filepath.Dir), "chmod 700"},
		"empty":                    {write(nil), "no PEM file"},
		"no PEM":                   {write([]byte("key")), "no PEM file"},
		"a certificate":            {write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE"})), "no PEM file"},
		"no PKCS #8":               {write(pem.EncodeToMemory(&pem.Block{Type: pemType, Bytes: []byte("x")})), "no PKCS #8"},
		"an ECDSA key":             {write(ecdsaKey(t)), "only Ed25519"},
		"huge":                     {write([]byte(strings.Repeat("k", MaxEntryBytes+1))), "more than 4096 bytes"},
		"another name":             {rename("key.pem"), "TIME-KID.pem"},
		"no time in the name":      {rename("20261399T144200.000Z-" + strings.Repeat("A", 43) + ".pem"), "a time in its name is none"},
		"another kid in the name":  {rename("20261130T144200.000Z-" + strings.Repeat("A", 43) + ".pem"), "not the one in its name"},
		"a pipe":                   {pipe, "no regular file"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			open(t, dir)
			tc.harm(t, onlyFile(t, dir))
			if _, err := tryOpen(t, dir); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want one with %q", err, tc.want)
			}
		})
	}
	t.Run("a file where the directory should be", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "keys")
		write(nil)(t, file)
		if _, err := tryOpen(t, file); err == nil {
			t.Error("no error")
		}
	})
}

func pipe(t *testing.T, file string) {
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(file, 0o600); err != nil {
		t.Fatal(err)
	}
}

func ecdsaKey(t *testing.T) []byte {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: pemType, Bytes: der})
}
