package client

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// changing is a credential that is renewed when it is refused.
type changing struct {
	err     error // of a renewal
	asked   []string
	renewed bool
}

func (c *changing) Credential(_ context.Context, refused string) (Credential, error) {
	c.asked = append(c.asked, refused)
	if refused != "" {
		c.renewed = true
		if c.err != nil {
			return Credential{}, c.err
		}
	}
	if c.renewed {
		return Credential{Value: "new", Type: TypeIDToken}, nil
	}
	return Credential{Value: "old", Type: TypeIDToken}, nil
}

// exchanges answers each exchange with an error of RFC 6749, or a token for "", and
// notes with what it was asked.
type exchanges struct {
	answers []string
	got     []string
}

func (e *exchanges) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := req.ParseForm(); err != nil {
		return nil, err
	}
	e.got = append(e.got, req.PostForm.Get("subject_token")+" "+req.PostForm.Get("subject_token_type"))
	answer := e.answers[len(e.got)-1]
	resp := &http.Response{StatusCode: http.StatusOK, Header: http.Header{}}
	body := `{"access_token":"token-1","token_type":"Bearer","expires_in":1500}`
	switch answer {
	case "":
	case "temporarily_unavailable":
		resp.StatusCode, body = http.StatusServiceUnavailable, `{"error":"`+answer+`"}`
	default:
		resp.StatusCode, body = http.StatusBadRequest, `{"error":"`+answer+`"}`
	}
	resp.Body = io.NopCloser(strings.NewReader(body))
	return resp, nil
}

// TestCredentialIsRenewedOnce: by the issuer's word that it does not know it, once for
// an exchange, and not for an outage or a denial.
func TestCredentialIsRenewedOnce(t *testing.T) {
	const old, renewed = "old urn:ietf:params:oauth:token-type:id_token", "new urn:ietf:params:oauth:token-type:id_token"
	ended := errors.New("the login has ended")
	for name, test := range map[string]struct {
		answers []string
		err     error
		sent    []string
		says    string // "" is success
	}{
		"good":               {answers: []string{""}, sent: []string{old}},
		"no longer known":    {answers: []string{"invalid_request", ""}, sent: []string{old, renewed}},
		"the new one is not": {answers: []string{"invalid_grant", "invalid_grant"}, sent: []string{old, renewed}, says: "refused the OAuth token"},
		"cannot be renewed":  {answers: []string{"invalid_request"}, err: ended, sent: []string{old}, says: ended.Error()},
		"an outage":          {answers: []string{"temporarily_unavailable"}, sent: []string{old}, says: "answered 503"},
		"denied":             {answers: []string{"access_denied"}, sent: []string{old}, says: "refused the OAuth token"},
		"another audience":   {answers: []string{"invalid_target"}, sent: []string{old}, says: "no tokens for this audience"},
	} {
		t.Run(name, func(t *testing.T) {
			credentials := &changing{err: test.err}
			s, err := NewTokenSource(TokenOptions{IssuerURL: "https://issuer.example", Credentials: credentials})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			issuer := &exchanges{answers: test.answers}
			s.exchanger.http.Transport = issuer
			token, err := s.Token(t.Context())
			if test.says == "" && (err != nil || token != "token-1") || test.says != "" && (err == nil || !strings.Contains(err.Error(), test.says)) {
				t.Errorf("token %q, error %v; want %q", token, err, test.says)
			}
			if !slices.Equal(issuer.got, test.sent) {
				t.Errorf("sent %q, want %q", issuer.got, test.sent)
			}
			if want := []string{"", "old"}; !slices.Equal(credentials.asked, want[:len(credentials.asked)]) {
				t.Errorf("asked for another than %q, want %q", credentials.asked, want)
			}
		})
	}
}

// TestCredentialTypeIsSent: an issuer may know a credential only by its type.
func TestCredentialTypeIsSent(t *testing.T) {
	for given, want := range map[TokenType]TokenType{"": TypeAccessToken, TypeAccessToken: TypeAccessToken, TypeIDToken: TypeIDToken, TypeJWT: TypeJWT} {
		s, err := NewTokenSource(TokenOptions{IssuerURL: "https://issuer.example", OAuthToken: "x", OAuthTokenType: given})
		if err != nil {
			t.Fatal(err)
		}
		issuer := &exchanges{answers: []string{"invalid_request"}} // a fixed one is sent once
		s.exchanger.http.Transport = issuer
		if _, err := s.Token(t.Context()); err == nil {
			t.Error("a token for a refused credential")
		}
		s.Close()
		if want := "x " + string(want); !slices.Equal(issuer.got, []string{want}) {
			t.Errorf("type %q: sent %q, want %q", given, issuer.got, want)
		}
	}
	for want, o := range map[string]TokenOptions{
		`OAuthTokenType is "saml"`: {IssuerURL: "https://h", OAuthToken: "x", OAuthTokenType: "saml"},
		"give only one":            {IssuerURL: "https://h", OAuthToken: "x", Credentials: &changing{}},
	} {
		if _, err := NewTokenSource(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one that says %q", err, want)
		}
	}
}
