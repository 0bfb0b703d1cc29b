package config

import (
	"slices"
	"testing"
)

func TestNamedFiles(t *testing.T) {
	c := &Config{
		Tokens: Tokens{KeySet: KeySet{URL: "https://tokens.example.com/jwks.json", CAFile: "issuer.crt"}, DeniedSubjects: &DeniedSubjects{File: "denied.txt"}},
		Units: []Unit{
			{Credential: "b-2", TLS: &UnitTLS{CAFile: "models.crt"}},
			{Credential: "a-1", TLS: &UnitTLS{CAFile: "models.crt"}},
			{TLS: &UnitTLS{ServerName: "other"}},
		},
	}
	if got, want := c.Files(), []string{"denied.txt", "issuer.crt", "models.crt"}; !slices.Equal(got, want) {
		t.Errorf("files: got %q, want %q", got, want)
	}
	if got, want := c.Credentials(), []string{"a-1", "b-2"}; !slices.Equal(got, want) {
		t.Errorf("credentials: got %q, want %q", got, want)
	}
	if got := new(Config).Files(); len(got) != 0 {
		t.Errorf("files of nothing: got %q", got)
	}
}
