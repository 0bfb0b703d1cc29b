package main

import (
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ghostline-dev/ghostline/tokenissuer/keys"
)

// keyDirectory is a directory with one key, as an issuer leaves it.
func keyDirectory(t *testing.T) (dir, id string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "keys")
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	store, err := keys.OpenDirectory(dir, log)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	policy := keys.Policy{RotateEvery: keys.DefaultRotateEvery, Propagation: keys.DefaultPropagation, TokenLife: time.Hour}
	keeper, err := keys.Open(t.Context(), store, policy, log)
	if err != nil {
		t.Fatal(err)
	}
	return dir, keeper.Ring().Signer.KeyID
}

func runKeys(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs strings.Builder
	code = run(t.Context(), &system{stdout: &out, stderr: &errs, getenv: func(string) string { return "" }}, append([]string{"keys"}, args...))
	return code, out.String(), errs.String()
}

func TestKeysList(t *testing.T) {
	dir, id := keyDirectory(t)
	code, out, errs := runKeys(t, "list", "--directory", dir)
	if code != exitOK || errs != "" || strings.Count(out, "\n") != 2 || !strings.Contains(out, id) || strings.Contains(out, "waits") {
		t.Errorf("exit %d, %q, %q", code, out, errs)
	}
	if err := os.WriteFile(filepath.Join(dir, "copy.pem"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if code, out, errs := runKeys(t, "list", "--directory", dir); code != exitFailure || !strings.Contains(out, id) || !strings.Contains(errs, "copy.pem: the name must be") {
		t.Errorf("with a file that is no key: exit %d, %q, %q", code, out, errs)
	}
}

func TestKeysRotate(t *testing.T) {
	dir, _ := keyDirectory(t)
	if code, _, errs := runKeys(t, "rotate", "--directory", dir); code != exitOK {
		t.Errorf("exit %d, %q", code, errs)
	}
	if state, err := keys.ReadDirectory(dir); err != nil || !state.RotationAsked {
		t.Errorf("asked %t, %v", state.RotationAsked, err)
	}
}

func TestKeysWithdraw(t *testing.T) {
	dir, id := keyDirectory(t)
	left := func() int {
		state, err := keys.ReadDirectory(dir)
		if err != nil {
			t.Fatal(err)
		}
		return len(state.Keys)
	}
	if code, _, errs := runKeys(t, "withdraw", "--directory", dir, id, "other"); code != exitFailure || !strings.Contains(errs, "there is no key other") || left() != 1 {
		t.Errorf("one that is not there: exit %d, %q, %d left", code, errs, left())
	}
	if code, out, errs := runKeys(t, "withdraw", "--directory", dir, id); code != exitOK || out != "withdrawn: "+id+"\n" || left() != 0 {
		t.Errorf("exit %d, %q, %q, %d left", code, out, errs, left())
	}
	dir, _ = keyDirectory(t)
	if code, _, errs := runKeys(t, "withdraw", "--directory", dir, "--all"); code != exitOK || left() != 0 {
		t.Errorf("all: exit %d, %q, %d left", code, errs, left())
	}
}

func TestKeysMistakes(t *testing.T) {
	dir, id := keyDirectory(t)
	absent := filepath.Join(t.TempDir(), "absent")
	for _, tc := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"list"}, exitUsage, "--directory is missing"},
		{[]string{"list", "--directory", dir, "x"}, exitUsage, "takes no argument"},
		{[]string{"list", "--directory", absent}, exitFailure, "no such file"},
		{[]string{"rotate", "--directory", absent}, exitFailure, "no such file"},
		{[]string{"withdraw", "--directory", dir}, exitUsage, "give either the ids"},
		{[]string{"withdraw", "--directory", dir, "--all", id}, exitUsage, "give either the ids"},
		{[]string{"withdraw", "--directory", absent, "--all"}, exitFailure, "no such file"},
	} {
		if code, _, errs := runKeys(t, tc.args...); code != tc.code || !strings.Contains(errs, tc.want) {
			t.Errorf("%q: exit %d, %q; want %d and %q", tc.args, code, errs, tc.code, tc.want)
		}
	}
}
