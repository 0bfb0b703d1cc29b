package proxy

import (
	"crypto/rand"
	"fmt"
	"time"
)

const (
	maxIdentifier = 128
	// shedAfter is what a client is told when the proxy itself is full: long
	// enough for other proxies to take over, short for one who types.
	shedAfter = time.Second
)

// admit gives the request its id and turns it away if the proxy can serve
// nobody or no more.
func (p *proxy) admit(x *exchange) error {
	x.id = requestID(x.header.Get("X-Request-Id"))
	if x.snapshot.auth == nil {
		x.stranger = false // nobody is known yet, and nobody is to be cut off for it
		return noCapacity(errNoKeys, shedAfter)
	}
	// The request counts itself, see begin.
	if limit := x.snapshot.config.Limits.InFlight; p.inFlight.Load() > int64(limit) {
		x.stranger = !x.snapshot.auth.Remembers(x.header["Authorization"], x.start)
		return noCapacity(fmt.Errorf("limits.inFlight of %d is reached", limit), shedAfter)
	}
	return nil
}

// requestID is the client's id if it is sane, else a new one. Clients send an
// id again when they retry, so it names a completion, not a request.
func requestID(sent string) string {
	if !isWord(sent) {
		return rand.Text()
	}
	return sent
}

// isWord says whether what a client sent as an identifier can be one.
func isWord(sent string) bool {
	if sent == "" || len(sent) > maxIdentifier {
		return false
	}
	for _, c := range []byte(sent) {
		if !isWordByte(c) {
			return false
		}
	}
	return true
}

// isWordByte allows what needs no quoting in a log line, a header or a label.
func isWordByte(c byte) bool {
	switch {
	case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		return true
	}
	return c == '-' || c == '_' || c == '.' || c == '/' || c == ':' || c == '+' || c == '='
}
