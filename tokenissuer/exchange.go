package tokenissuer

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	"github.com/ghostline-dev/ghostline/internal/token"
	"github.com/ghostline-dev/ghostline/tokenissuer/identity"
	"github.com/google/uuid"
)

// result is how an exchange ended: a metric's label and a word of audit lines.
type result string

const (
	resultGranted     result = "granted"
	resultDenied      result = "denied"      // the credential is nobody's
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
	provider string
	claims   token.Claims // Subject and ClientID are set once an identity is known
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
		d := decision{endpoint: f.endpoint, provider: noProvider}
		var asked ask
		if asked, d.refused = f.read(w, r); d.refused == nil {
			s.decide(r.Context(), asked, &d)
		}
		s.metrics.observe(d, s.now().Sub(start))
		s.audit(w, d)
		if d.refused != nil {
			f.refuse(w, d.refused)
			return
		}
		f.grant(w, d)
	}
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
	var who identity.Identity
	if who, d.provider, d.refused = s.identify(ctx, asked.credential); d.refused == nil {
		s.sign(who, asked.audience, d)
	}
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
				message: "the identity provider cannot be asked right now; try again", cause: err}
		}
	}
	if out != nil {
		return identity.Identity{}, outProvider, out
	}
	return identity.Identity{}, noProvider, &refusal{result: resultDenied, status: http.StatusForbidden, code: "invalid_request",
		message: "the credential is not known to any identity provider of this issuer; log in again", cause: why}
}

func (s *server) sign(who identity.Identity, audience string, d *decision) {
	d.life = s.config.tokenLife()
	issued := s.now().Truncate(time.Second)
	d.claims = token.Claims{
		Issuer: s.config.Issuer, Audience: audience, Subject: who.Subject,
		IssuedAt: issued, Expires: issued.Add(d.life),
		ID: uuid.NewString(), ClientID: who.ClientID, Models: who.Models, Tier: who.Tier,
	}
	signed, err := s.ring.Signer.Sign(d.claims)
	if err != nil {
		d.refused = &refusal{result: resultInternal, status: http.StatusInternalServerError, code: "server_error",
			message: "the token could not be made; the operator's log says why", cause: err}
		return
	}
	d.token = signed
	d.refresh = refreshIn(d.life, rand.Float64())
}

// refreshIn is 80 % of a token's life, give or take 10 % of that, so that
// clients that started together do not come back together. The fraction, in
// [0, 1), is where in that range.
func refreshIn(life time.Duration, fraction float64) time.Duration {
	return time.Duration(0.8 * (0.9 + 0.2*fraction) * float64(life)).Truncate(time.Second)
}

// audit writes the one line that says who got a token, or why not. The
// credential and the token are never in it.
func (s *server) audit(w http.ResponseWriter, d decision) {
	attributes := []any{
		"request_id", w.Header().Get(headerRequestID), "endpoint", d.endpoint, "result", string(d.result()),
		"provider", d.provider, "subject", d.claims.Subject, "client_id", d.claims.ClientID,
	}
	if d.refused == nil {
		attributes = append(attributes, "audience", d.claims.Audience, "token_id", d.claims.ID)
	} else {
		attributes = append(attributes, "reason", d.refused.message)
		if d.refused.cause != nil {
			attributes = append(attributes, "cause", d.refused.cause)
		}
	}
	s.log.Info("exchange", attributes...)
}
