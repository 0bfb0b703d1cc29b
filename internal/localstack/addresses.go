package localstack

import (
	"fmt"
	"net"
	"slices"
)

// Addresses are the stack's ports, as HOST:PORT.
type Addresses struct{ Proxy, Admin, Issuer, Model string }

type address struct {
	name string
	at   *string
}

func (a *Addresses) all() []address {
	return []address{{"proxy", &a.Proxy}, {"admin", &a.Admin}, {"issuer", &a.Issuer}, {"model", &a.Model}}
}

// Validate refuses an address that is not one of those that the stack's
// certificate is for. The error begins with the address's name: proxy, admin,
// issuer or model.
func (a Addresses) Validate() error {
	for _, address := range a.all() {
		if *address.at == "" {
			continue // a free port on loopback
		}
		host, _, err := net.SplitHostPort(*address.at)
		if err != nil {
			return fmt.Errorf("%s: %w; it should look like 127.0.0.1:8443", address.name, err)
		}
		if !slices.Contains([]string{"127.0.0.1", "::1", "localhost"}, host) {
			return fmt.Errorf("%s: %q is not 127.0.0.1, ::1 or localhost, which alone the certificate is for; "+
				"the stack has one login, kept in a file, and is for use on this machine only", address.name, *address.at)
		}
	}
	return nil
}
