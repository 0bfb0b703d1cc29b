// Package loopback says which hosts are this machine: where tokens and keys may
// travel in clear text.
package loopback

import (
	"net/netip"
	"strings"
)

// Is says whether host, a name or an address without a port, is this machine.
// Other names than localhost may resolve to anything (RFC 6761 section 6.3).
func Is(host string) bool {
	addr, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && addr.Unmap().IsLoopback()
}
