package login

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"time"
)

// lifeOfJWT is how long a token lives from its issue, 0 if it does not say so. The
// difference of its two times is taken, because our clock may be wrong. Nothing is
// verified: it says only when to ask for another one.
func lifeOfJWT(token string) time.Duration {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return 0
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return 0
	}
	var claims struct {
		Expires float64 `json:"exp"`
		Issued  float64 `json:"iat"`
	}
	if json.Unmarshal(payload, &claims) != nil || claims.Issued <= 0 || claims.Expires <= claims.Issued {
		return 0
	}
	return time.Duration(min(claims.Expires-claims.Issued, maxLife.Seconds()) * float64(time.Second))
}

// maxLife keeps arithmetic on times sane.
const maxLife = 10 * 365 * 24 * time.Hour
