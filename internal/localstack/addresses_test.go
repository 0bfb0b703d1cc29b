package localstack

import (
	"strings"
	"testing"
)

func TestAddresses(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ address, says string }{
		{"", ""},
		{"127.0.0.1:0", ""},
		{"127.0.0.1:8443", ""},
		{"[::1]:8443", ""},
		{"localhost:8443", ""},
		{":8443", `":8443" is not 127.0.0.1, ::1 or localhost`},
		{"0.0.0.0:8443", `"0.0.0.0:8443" is not`},
		{"[::]:8443", "which alone the certificate is for"},
		{"192.0.2.1:8443", "for use on this machine only"},
		{"127.0.0.2:8443", "is not"},
		{"localhost.example.com:8443", "is not"},
		{"127.0.0.1", "missing port in address; it should look like 127.0.0.1:8443"},
		{"::1:8443", "too many colons"},
	} {
		for _, a := range []Addresses{{Proxy: tc.address}, {Admin: tc.address}, {Issuer: tc.address}, {Model: tc.address}} {
			err := a.Validate()
			if (err == nil) != (tc.says == "") || err != nil && !strings.Contains(err.Error(), tc.says) {
				t.Errorf("%+v: %v; want %q", a, err, tc.says)
			}
		}
	}
	// What listens is refused too, and before anything is written.
	if err := Run(t.Context(), Options{Dir: "/dev/null/none", Addresses: Addresses{Admin: ":0"}}); err == nil || !strings.HasPrefix(err.Error(), `admin: ":0" is not`) {
		t.Errorf("run on all addresses: %v", err)
	}
}
