package loopback

import "testing"

func TestIs(t *testing.T) {
	for host, want := range map[string]bool{
		"localhost": true, "LOCALHOST": true, "127.0.0.1": true, "127.8.9.10": true, "::1": true, "::ffff:127.0.0.1": true,
		"": false, "localhost.example.com": false, "app.localhost": false, "10.0.0.1": false, "0.0.0.0": false, "::": false, "127.1": false,
	} {
		if got := Is(host); got != want {
			t.Errorf("%q: %t, want %t", host, got, want)
		}
	}
}
