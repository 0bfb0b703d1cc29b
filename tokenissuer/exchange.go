package tokenissuer

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"github.com/ghostline-dev/ghostline/internal/token"
	"github.com/ghostline-dev/ghostline/tokenissuer/identity"
	"github.com/google/uuid"
)

// result is how an exchange ended: a metric's label and a word of audit lines.
type result string

const (
	resultGranted     result = "granted"
	resultUnknown     result = "unknown"     // the credential is nobody's
	resultDenied      result = "denied"      // its owner may have no token
	resultLimited     result = "limited"     // too many exchanges
	resultBadRequest  result = "bad_request" // nobody was asked
	resultUnavailable result = "unavailable" // a provider is out, which is no denial
	resultCancelled   result = "cancelled"   // the client went away
	resultInternal    result = "internal"
)

// statusClientGone is nginx's status for a client that did not wait. It is
// written for completeness; there is nobody to read it.
const statusClientGone = 499

// refusal is why there is no token. Its message is in fixed words, good for the
// client and for the audit line; the cause is for the audit line only.
type refusal struct {
	result  result
	status  int
	code    string // of RFC 6749 section 5.2 or RFC 8693 section 2.2.2
	message string
	cause   error
	// retryAfter is when to come again; 0 says nothing of it.
	retryAfter time.Duration
}

func badRequest(code, message string) *refusal {
	return &refusal{result: resultBadRequest, status: http.StatusBadRequest, code: code, message: message}
}

// ask is what a client wants, in whichever form it asked.
type ask struct {
	credential identity.Credential
	audience   string // "" is the default
}

// decision is the outcome of one exchange, as far as it came.
type decision struct {
	endpoint string
	address  netip.Addr // of the client
	provider string
	who      identity.Identity
	rule     string // of the entitlements, that decided
	claims   token.Claims
	token    string
	// life is how long the token is good for.
	life time.Duration
	// refresh is when the client should come again, from now.
	refresh time.Duration
	refused *refusal
}

func (d *decision) result() result {
	if d.refused != nil {
		return d.refused.result
	}
	return resultGranted
}

// form is one way to ask for a token: how the question is read and the answer
// written. What is decided in between is the same for all.
type form struct {
	endpoint string // in metrics and audit lines
	read     func(http.ResponseWriter, *http.Request) (ask, *refusal)
	grant    func(http.ResponseWriter, decision)
	refuse   func(http.ResponseWriter, *refusal)
}

// exchange answers one form of exchange.
func (s *server) exchange(f form) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		start := s.now()
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("Pragma", "no-cache") // RFC 6749 section 5.1 wants both
		d := decision{endpoint: f.endpoint, provider: noProvider, address: s.edges.clientAddress(r)}
		if asked, ok := s.read(f, w, r, &d); ok {
			s.decide(r.Context(), asked, &d)
		}
		s.metrics.observe(d, s.now().Sub(start))
		s.audit(w, d)
		if d.refused != nil {
			if d.refused.retryAfter > 0 {
				w.Header().Set("Retry-After", strconv.FormatInt(seconds(d.refused.retryAfter), 10))
			}
			f.refuse(w, d.refused)
			return
		}
		f.grant(w, d)
	}
}

// read is the question, unless the client asks too often. Its address is looked at
// first: who is refused for that takes nothing from others with the same credential,
// and costs no reading of a body.
func (s *server) read(f form, w http.ResponseWriter, r *http.Request, d *decision) (asked ask, ok bool) {
	if d.refused = s.limits.address(d.endpoint, d.address); d.refused != nil {
		return asked, false
	}
	if asked, d.refused = f.read(w, r); d.refused != nil {
		return asked, false
	}
	d.refused = s.limits.credential(d.endpoint, asked.credential)
	return asked, d.refused == nil
}

// decide fills d with a token, or with why there is none.
func (s *server) decide(ctx context.Context, asked ask, d *decision) {
	if asked.audience == "" {
		asked.audience = s.config.Audiences[0]
	}
	if !slices.Contains(s.config.Audiences, asked.audience) {
		d.refused = badRequest("invalid_target", "audience is not one that this issuer makes tokens for")
		return
	}
	if d.who, d.provider, d.refused = s.identify(ctx, asked.credential); d.refused != nil {
		return
	}
	if s.entitle(d); d.refused == nil {
		s.sign(d.who, asked.audience, d)
	}
}

// entitle sets what the identity may have, or why nothing. It is asked at each exchange,
// also for an identity that is remembered, so a new denial holds at once.
func (s *server) entitle(d *decision) {
	entitled := s.entitlements.decide(d.provider, d.who)
	d.rule = entitled.Rule
	if !entitled.Allowed {
		d.refused = &refusal{result: resultDenied, status: http.StatusForbidden, code: "invalid_request", message: entitled.Message}
		return
	}
	d.who.Models, d.who.Tier, d.life = entitled.Models, entitled.Tier, entitled.TokenLife
}

// identify asks the providers in order. The first that knows the credential
// decides. If none does, but one could not be asked, nobody knows.
func (s *server) identify(ctx context.Context, credential identity.Credential) (identity.Identity, string, *refusal) {
	var out *refusal
	var why error // of a denial, if a provider says more than that it knows nobody
	outProvider := noProvider
	for _, provider := range s.providers {
		who, err := provider.Identify(ctx, credential)
		switch {
		case err == nil:
			return who, provider.Name(), nil
		case ctx.Err() != nil:
			return who, provider.Name(), &refusal{result: resultCancelled, status: statusClientGone, code: "invalid_request",
				message: "the client went away", cause: context.Cause(ctx)}
		case errors.Is(err, identity.ErrUnknownCredential):
			if err != identity.ErrUnknownCredential {
				why = err
			}
		default:
			outProvider = provider.Name()
			out = &refusal{result: resultUnavailable, status: http.StatusServiceUnavailable, code: "temporarily_unavailable",
				message: "the identity provider cannot be asked right now; try again", cause: err, retryAfter: spread(afterOutage)}
		}
	}
	if out != nil {
		return identity.Identity{}, outProvider, out
	}
	return identity.Identity{}, noProvider, &refusal{result: resultUnknown, status: http.StatusForbidden, code: "invalid_request",
		message: "the credential is not known to any identity provider of this issuer; log in again", cause: why}
}

func (s *server) sign(who identity.Identity, audience string, d *decision) {
	if d.life == 0 {
		d.life = s.config.tokenLife()
	}
	issued := s.now().Truncate(time.Second)
	d.life = withinCredential(d.life, who.Expires, issued)
	d.claims = token.Claims{
		Issuer: s.config.Issuer, Audience: audience, Subject: who.Subject,
		IssuedAt: issued, Expires: issued.Add(d.life),
		ID: uuid.NewString(), ClientID: who.ClientID, Models: who.Models, Tier: who.Tier,
	}
	signed, err := s.ring().Signer.Sign(d.claims)
	if err != nil {
		d.refused = &refusal{result: resultInternal, status: http.StatusInternalServerError, code: "server_error",
			message: "the token could not be made; the operator's log says why", cause: err}
		return
	}
	d.token = signed
	d.refresh = refreshIn(d.life, rand.Float64())
}

// leastLife is what a credential that is about to end gets all the same: the clocks of
// provider and issuer differ, and clients renew a login a minute before its end.
const leastLife = time.Minute

// withinCredential cuts a token's life to that of the credential that it is made for, or
// who has a token would keep for longer what the provider gave until then. RFC 7521
// section 4.1 has this for assertions, and allows the minute: not longer "by a
// significant period". RFC 8693 leaves it to the issuer.
func withinCredential(life time.Duration, ends, issued time.Time) time.Duration {
	if ends.IsZero() {
		return life
	}
	return min(life, max(ends.Sub(issued).Truncate(time.Second), leastLife))
}

// refreshIn is 80 % of a token's life, give or take 10 % of that, so that
// clients that started together do not come back together. The fraction, in
// [0, 1), is where in that range.
func refreshIn(life time.Duration, fraction float64) time.Duration {
	return time.Duration(0.8 * (0.9 + 0.2*fraction) * float64(life)).Truncate(time.Second)
}
