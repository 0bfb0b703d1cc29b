package client

import (
	"strings"
	"testing"
)

func TestBadOptions(t *testing.T) {
	t.Parallel()
	for want, o := range map[string]Options{
		"proxy URL \"\" should look like": {Tokens: &fixedToken{}},
		"Tokens is missing":               {ProxyURL: "https://h"},
		"proxy URL \"http://127.0.0.1.example.com\" would send tokens over the network in clear text: use https://": {ProxyURL: "http://127.0.0.1.example.com", Tokens: &fixedToken{}},
		"printable ASCII": {ProxyURL: "https://h", Tokens: &fixedToken{}, Plugin: Product{"a b", "1"}},
	} {
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one that says %q", err, want)
		}
	}
}

// TestCleartext: tokens go in clear text to this machine and nowhere else.
func TestCleartext(t *testing.T) {
	t.Parallel()
	for raw, good := range map[string]bool{
		"http://localhost": true, "http://LOCALHOST:80": true, "http://127.0.0.1:8080": true, "http://127.9.9.9": true,
		"http://[::1]:1": true, "http://[::ffff:127.0.0.1]": true, "https://completions.example.com": true, "https://192.0.2.1": true,
		"http://completions.example.com": false, "http://192.0.2.1": false, "http://0.0.0.0": false, "http://[fe80::1%25lo]": false,
		"http://localhost.example.com": false, "http://2130706433": false, "http://10.0.0.1:8080": false, "HTTP://proxy": false,
	} {
		c, err := New(Options{ProxyURL: raw, Tokens: &fixedToken{}})
		if (err == nil) != good {
			t.Errorf("proxy %s: error %v", raw, err)
		}
		if err == nil {
			c.Close()
		}
		s, err := NewTokenSource(TokenOptions{IssuerURL: raw, OAuthToken: "x"})
		if (err == nil) != good {
			t.Errorf("issuer %s: error %v", raw, err)
		}
		if err == nil {
			s.Close()
		}
	}
}
