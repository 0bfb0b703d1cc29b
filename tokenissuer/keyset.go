package tokenissuer

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/ghostline-dev/ghostline/tokenissuer/keys"
)

// keySetDocument is the key set as it is published.
type keySetDocument struct {
	of       *keys.Ring
	body     []byte
	tag      string
	modified string
}

func newKeySetDocument(ring *keys.Ring) (*keySetDocument, error) {
	body, err := json.Marshal(ring.Public)
	if err != nil {
		return nil, fmt.Errorf("key set: %w", err)
	}
	sum := sha256.Sum256(body)
	return &keySetDocument{of: ring, body: body, tag: `"` + hex.EncodeToString(sum[:16]) + `"`,
		modified: ring.Since.UTC().Format(http.TimeFormat)}, nil
}

// keySet answers with the keys of the moment. A client that has them already is
// told so, by their tag: issuers that share their keys have the same. Not by the
// time of the last change (If-Modified-Since): two changes may come within a second,
// and who asks by that time would keep a key that is withdrawn.
func (s *server) keySet() http.HandlerFunc {
	var last atomic.Pointer[keySetDocument]
	cache := fmt.Sprintf("public, max-age=%d", s.config.keySetAge()/time.Second)
	return func(w http.ResponseWriter, r *http.Request) {
		ring, document := s.ring(), last.Load()
		if document == nil || document.of != ring {
			var err error
			if document, err = newKeySetDocument(ring); err != nil {
				s.log.Error("the key set cannot be written", "error", err)
				writeError(w, http.StatusInternalServerError, "server_error", "the key set cannot be written; the operator's log says why")
				return
			}
			last.Store(document)
		}
		header := w.Header()
		header.Set("Cache-Control", cache)
		header.Set("ETag", document.tag)
		header.Set("Last-Modified", document.modified)
		if hasTag(r.Header.Values("If-None-Match"), document.tag) {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		header.Set("Content-Type", "application/jwk-set+json")
		// A failed write is a client that went away.
		_, _ = w.Write(document.body)
	}
}

// hasTag compares weakly (RFC 9110 section 13.1.2). Our tags have no comma in them.
func hasTag(given []string, tag string) bool {
	for _, line := range given {
		for one := range strings.SplitSeq(line, ",") {
			if one = strings.TrimSpace(one); one == "*" || strings.TrimPrefix(one, "W/") == tag {
				return true
			}
		}
	}
	return false
}
