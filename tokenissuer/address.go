package tokenissuer

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// edges are networks whose word on where a request comes from is believed.
type edges []netip.Prefix

// newEdges is for networks that are valid.
func newEdges(networks []string) edges {
	var e edges
	for _, network := range networks {
		e = append(e, netip.MustParsePrefix(network).Masked())
	}
	return e
}

func (e edges) trust(address netip.Addr) bool {
	return slices.ContainsFunc(e, func(network netip.Prefix) bool { return network.Contains(address) })
}

// clientAddress is the address that is the client's own as far as can be known: the
// peer's, or if that is an edge's, the last before it that is not. Clients can send
// either header themselves, and an edge that sets one may let the other through: they
// are believed only if they agree.
func (e edges) clientAddress(r *http.Request) netip.Addr {
	peer, ok := parseNode(r.RemoteAddr)
	if !ok || !e.trust(peer) {
		return peer
	}
	listed, standard := r.Header.Values("X-Forwarded-For"), r.Header.Values("Forwarded")
	if len(listed) == 0 && len(standard) == 0 {
		return peer
	}
	var found []netip.Addr
	if len(listed) > 0 {
		found = append(found, e.lastBefore(peer, strings.Split(strings.Join(listed, ","), ",")))
	}
	if len(standard) > 0 {
		nodes, ok := forwardedFor(strings.Join(standard, ","))
		if !ok {
			return peer
		}
		found = append(found, e.lastBefore(peer, nodes))
	}
	if len(slices.Compact(found)) > 1 {
		return peer
	}
	return found[0]
}

// lastBefore is the last of the nodes that is no edge's: those before it may be made up.
func (e edges) lastBefore(address netip.Addr, nodes []string) netip.Addr {
	for _, node := range slices.Backward(nodes) {
		next, ok := parseNode(strings.TrimSpace(node))
		if !ok {
			break
		}
		address = next
		if !e.trust(address) {
			break
		}
	}
	return address
}

// parseNode reads an address, with or without a port, IPv6 in brackets or not.
func parseNode(node string) (netip.Addr, bool) {
	if withPort, err := netip.ParseAddrPort(node); err == nil {
		return plain(withPort.Addr()), true
	}
	if inner, ok := strings.CutPrefix(node, "["); ok {
		if node, ok = strings.CutSuffix(inner, "]"); !ok {
			return netip.Addr{}, false
		}
	}
	address, err := netip.ParseAddr(node)
	return plain(address), err == nil
}

// plain is an address that is the same however it is written.
func plain(address netip.Addr) netip.Addr { return address.Unmap().WithZone("") }

// forwardedFor are the values of for in a Forwarded header (RFC 7239 section 4), "" where
// an element has none. It is strict: what one reader takes for the end of a quoted
// string, and the next one not, could hide the edge's own element.
func forwardedFor(header string) (nodes []string, ok bool) {
	node, rest := "", header
	for {
		name, value, after, ok := forwardedPair(strings.TrimLeft(rest, " \t"))
		if !ok {
			return nil, false
		}
		if strings.EqualFold(name, "for") {
			node = value
		}
		if after = strings.TrimLeft(after, " \t"); after == "" {
			return append(nodes, node), true
		}
		switch after[0] {
		case ',':
			nodes, node = append(nodes, node), ""
		case ';':
		default:
			return nil, false
		}
		rest = after[1:]
	}
}

// forwardedPair reads one name=value off the front of a header.
func forwardedPair(from string) (name, value, rest string, ok bool) {
	name, rest, ok = strings.Cut(from, "=")
	if !ok || name == "" || strings.ContainsAny(name, " \t,;\"") {
		return "", "", "", false
	}
	if quoted, ok := strings.CutPrefix(rest, `"`); ok {
		value, rest, ok = strings.Cut(quoted, `"`)
		return name, value, rest, ok && !strings.Contains(value, `\`) // nothing in an address needs escaping
	}
	end := strings.IndexAny(rest, " \t,;\"")
	if end < 0 {
		end = len(rest)
	}
	return name, rest[:end], rest[end:], end > 0
}
