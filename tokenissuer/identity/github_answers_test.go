package identity

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

const noScope = `{"message":"You need at least read:org scope or user scope to list your organizations."}`

// TestGitHubDenies: only what GitHub says of the token itself denies it.
func TestGitHubDenies(t *testing.T) {
	scopes := []string{"X-OAuth-Scopes: gist, repo:status", "X-Accepted-OAuth-Scopes: admin:org, read:org, user, write:org"}
	for name, tc := range map[string]struct {
		path   string
		answer http.HandlerFunc
	}{
		"not of our app":      {checkPath, reply(404, `{"message":"Not Found","documentation_url":"d"}`)},
		"not valid":           {checkPath, reply(422, `{"message":"Validation Failed","errors":[]}`)},
		"of nobody":           {checkPath, reply(200, checked("null", ""))},
		"expired":             {checkPath, reply(200, checked(hubUser, `,"expires_at":"2024-01-01T00:00:00Z"`))},
		"withdrawn meanwhile": {userPath, reply(401, `{"message":"Bad credentials"}`)},
		"withdrawn later":     {teamsPath, reply(401, `{"message":"Bad credentials"}`)},
		"suspended":           {userPath, reply(200, `{"id":583231,"login":"OctoCat","suspended_at":"2024-01-01T00:00:00Z"}`)},
		"suspended, refused":  {userPath, reply(403, `{"message":"Sorry. Your account was suspended."}`)},
		"no scope":            {membersPath, reply(403, noScope, scopes...)},
		"no scope at all":     {membersPath, reply(403, noScope, "X-OAuth-Scopes: ", scopes[1])},
		"no scope, not found": {teamsPath, reply(404, `{"message":"Not Found"}`, scopes...)},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHub(t)
			h.set(tc.path, tc.answer)
			if who, err := h.provider(nil).identifyForTest(t); !errors.Is(err, ErrUnknownCredential) || who.Subject != "" {
				t.Errorf("%+v, %v; want it unknown", who, err)
			}
		})
	}
}

// hostile are answers that are none of GitHub's API, for any path. Some repeat the token.
func hostile() map[string]http.HandlerFunc {
	raw := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err == nil {
				_, _ = fmt.Fprint(conn, text)
				_ = conn.Close()
			}
		}
	}
	return map[string]http.HandlerFunc{
		"empty":             reply(200, ""),
		"null":              reply(200, "null"),
		"a number":          reply(200, "7"),
		"a string":          reply(200, `"`+hubToken+`"`),
		"HTML":              reply(200, "<html>sign in "+hubToken),
		"cut off":           reply(200, `[{"id":583231,"login":"Oc`),
		"more behind":       reply(200, `{"id":583231,"login":"OctoCat"} {}`),
		"huge":              reply(200, `{"id":583231,"login":"`+strings.Repeat("x", maxAnswer)+`"}`),
		"deep":              reply(200, strings.Repeat("[", 100_000)),
		"too many headers":  reply(200, hubUser, "X-Pad: "+strings.Repeat("x", 128<<10)),
		"no content":        reply(204, ""),
		"unchanged":         reply(304, ""),
		"redirect":          reply(302, "", "Location: https://evil.example/"+hubToken),
		"moved":             reply(307, "", "Location: /user"),
		"teapot":            reply(418, `{"message":"`+hubToken+`"}`),
		"down":              reply(500, `{"message":"Server Error"}`),
		"unicorn":           reply(502, "<html>Unicorn!"),
		"unavailable":       reply(503, `{"message":"Not Found"}`),
		"gateway":           reply(504, ""),
		"HTML not found":    reply(404, "<html>Not Found"),
		"nothing not found": reply(404, ""),
		"no words":          reply(404, `{"error":"not_found"}`),
		"a captive portal":  reply(401, "<html>log in"),
		"a firewall":        reply(403, "Request forbidden by administrative rules."),
		"refused":           reply(403, `{"message":"Forbidden"}`),
		"no HTTP":           raw("220 smtp.example " + hubToken + "\r\n"),
		"a bad status":      raw("HTTP/1.1 " + hubToken + "\r\n\r\n"),
		"a bad header":      raw("HTTP/1.1 200 OK\r\n" + hubToken + " " + hubSecret + "\r\n\r\n"),
		"a bad length":      raw("HTTP/1.1 200 OK\r\nContent-Length: " + hubToken + "\r\n\r\n"),
		"shorter than said": raw("HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n{}"),
		"a bad chunk":       raw("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + hubToken + "\r\n"),
		"closed":            raw(""),
		"without an end": func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				_, _ = w.Write(make([]byte, 64<<10))
			}
		},
	}
}

// wantOutage holds that an error is an outage, and of whom.
func wantOutage(t *testing.T, err error, alone bool, retryAfter time.Duration) {
	t.Helper()
	if err == nil || errors.Is(err, ErrUnknownCredential) {
		t.Fatalf("error %v, want an outage", err)
	}
	var outage *OutageError
	if !errors.As(err, &outage) {
		outage = &OutageError{}
	}
	if outage.Single != alone || outage.RetryAfter.Round(time.Minute/2) != retryAfter {
		t.Errorf("%v: single %v, retry after %v; want %v, %v", err, outage.Single, outage.RetryAfter, alone, retryAfter)
	}
}

// TestGitHubHostileAnswers: at no call is any of them a denial or an identity, or shown.
func TestGitHubHostileAnswers(t *testing.T) {
	for name, answer := range hostile() {
		for _, path := range []string{checkPath, userPath, membersPath, teamsPath} {
			t.Run(name+" at "+path, func(t *testing.T) {
				h := newHub(t)
				h.set(path, answer)
				who, err := h.provider(nil).identifyForTest(t)
				if err == nil || errors.Is(err, ErrUnknownCredential) || who.Subject != "" {
					t.Errorf("%+v, %v; want an outage", who, err)
				}
			})
		}
	}
}

func TestGitHubOutages(t *testing.T) {
	const alone, all = true, false
	inAnHour := fmt.Sprintf("X-RateLimit-Reset: %d", time.Now().Add(time.Hour).Unix())
	for name, tc := range map[string]struct {
		path   string
		answer http.HandlerFunc
		alone  bool
		after  time.Duration
	}{
		"bad secret":              {checkPath, reply(401, `{"message":"Bad credentials"}`), all, 0},
		"another app":             {checkPath, reply(200, `{"app":{"client_id":"other"},"user":`+hubUser+`}`), all, 0},
		"no app":                  {checkPath, reply(200, `{"user":`+hubUser+`}`), all, 0},
		"an id of 0":              {checkPath, reply(200, checked(`{"login":"a"}`, "")), alone, 0},
		"an id below 0":           {checkPath, reply(200, checked(`{"id":-1,"login":"a"}`, "")), alone, 0},
		"an id as text":           {checkPath, reply(200, checked(`{"id":"1","login":"a"}`, "")), all, 0},
		"an id with a fraction":   {checkPath, reply(200, checked(`{"id":1.5,"login":"a"}`, "")), all, 0},
		"an id too large":         {checkPath, reply(200, checked(`{"id":9223372036854775808,"login":"a"}`, "")), all, 0},
		"a name of another case":  {checkPath, reply(200, checked(`{"ID":1,"login":"a"}`, "")), alone, 0},
		"a login with a line end": {checkPath, reply(200, checked(`{"id":583231,"login":"a\nb"}`, "")), alone, 0},
		"no login":                {checkPath, reply(200, checked(`{"id":583231}`, "")), alone, 0},
		"a bad time":              {checkPath, reply(200, checked(hubUser, `,"expires_at":"soon"`)), all, 0},
		"spam":                    {checkPath, reply(422, `{"message":"The endpoint has been spammed."}`), all, 0},
		"another user":            {userPath, reply(200, `{"id":2,"login":"b"}`), alone, 0},
		"another's membership":    {membersPath, reply(200, `[{"state":"active","organization":{"login":"acme"},"user":{"id":2}}]`), alone, 0},
		"no organization":         {membersPath, reply(200, `[{"state":"active"}]`), alone, 0},
		"a slug with a slash":     {teamsPath, reply(200, `[{"slug":"acme/x","organization":{"login":"other"}}]`), alone, 0},
		"no end":                  {teamsPath, reply(200, `[]`, `Link: <?page=2>; rel="next"`), alone, 0},
		"app without permission":  {membersPath, reply(403, `{"message":"Resource not accessible by integration"}`), alone, 0},
		"an allow list":           {membersPath, reply(403, `{"message":"m"}`, "X-OAuth-Scopes: read:org", "X-Accepted-OAuth-Scopes: read:org, user"), alone, 0},

		"the app's quota":       {checkPath, reply(403, `{"message":"API rate limit exceeded"}`, "X-RateLimit-Remaining: 0", inAnHour), all, time.Hour},
		"the quota with 429":    {checkPath, reply(429, ``, "X-RateLimit-Remaining: 0", inAnHour), all, time.Hour},
		"a secondary limit":     {checkPath, reply(403, `{"message":"You have exceeded a secondary rate limit"}`, "Retry-After: 120"), all, 2 * time.Minute},
		"one without a time":    {checkPath, reply(403, `{"message":"You have exceeded a secondary rate limit"}`), all, time.Minute},
		"429 alone":             {checkPath, reply(429, ``), all, time.Minute},
		"a date":                {checkPath, reply(429, ``, "Date: Mon, 06 Jan 2020 10:00:00 GMT", "Retry-After: Mon, 06 Jan 2020 10:05:00 GMT"), all, 5 * time.Minute},
		"a clock that is wrong": {checkPath, reply(429, ``, "Date: Mon, 06 Jan 2020 10:00:00 GMT", "X-RateLimit-Remaining: 0", "X-RateLimit-Reset: 1578305400"), all, 10 * time.Minute},
		"too many bad logins":   {userPath, reply(403, `{"message":"Maximum number of login attempts exceeded."}`), alone, time.Minute},
		"the user's quota":      {userPath, reply(403, `{"message":"API rate limit exceeded"}`, "X-RateLimit-Remaining: 0", inAnHour), alone, time.Hour},
		"garbage for a time":    {checkPath, reply(429, ``, "Retry-After: soon", "X-RateLimit-Remaining: 0", "X-RateLimit-Reset: never"), all, time.Minute},
		"down with a time":      {checkPath, reply(503, ``, "Retry-After: 300"), all, 5 * time.Minute},
		"not denied by scopes":  {checkPath, reply(403, noScope, "X-OAuth-Scopes: ", "X-Accepted-OAuth-Scopes: user"), all, 0},
		"limited and unscoped":  {membersPath, reply(403, `{"message":"m"}`, "X-OAuth-Scopes: ", "X-Accepted-OAuth-Scopes: user", "Retry-After: 60"), alone, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHub(t)
			h.set(tc.path, tc.answer)
			_, err := h.provider(nil).identifyForTest(t)
			wantOutage(t, err, tc.alone, tc.after)
		})
	}
}

// TestGitHubNeverFollows: neither token nor secret goes where a redirect says.
func TestGitHubNeverFollows(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { t.Errorf("it went to %s", r.URL) }))
	defer elsewhere.Close()
	for _, path := range []string{checkPath, userPath, membersPath, teamsPath} {
		for _, status := range []int{301, 302, 303, 307, 308} {
			h := newHub(t)
			h.set(path, reply(status, "", "Location: "+elsewhere.URL+"/there"))
			_, err := h.provider(nil).identifyForTest(t)
			wantOutage(t, err, false, 0)
		}
	}
}

// TestGitHubThatIsAway: nobody listens, nobody answers, or somebody else does.
func TestGitHubThatIsAway(t *testing.T) {
	h := newHub(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = listener.Close()
	other := httptest.NewTLSServer(h.Config.Handler)
	defer other.Close()
	other.Config.ErrorLog = nil
	for url, want := range map[string]string{
		"http://" + listener.Addr().String(): "connection refused", other.URL: "its certificate is not trusted",
		"http://127.0.0.1:0": "127.0.0.1:0",
	} {
		_, err := h.provider(func(o *GitHubOptions) { o.API = url }).identifyForTest(t)
		wantOutage(t, err, false, 0)
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %q, want one with %q", url, err, want)
		}
	}
	entered := make(chan struct{})
	h.set(teamsPath, func(_ http.ResponseWriter, r *http.Request) {
		close(entered)
		<-r.Context().Done()
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-entered; cancel() }()
	if _, err := h.provider(nil).Identify(ctx, Credential{Value: hubToken, Type: AccessToken}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

func FuzzGitHubAnswer(f *testing.F) {
	f.Add(200, `{"app":{"client_id":"`+hubClient+`"},"user":`+hubUser+`}`, "Retry-After", "5")
	f.Add(403, noScope, "X-OAuth-Scopes", "user")
	f.Add(429, ``, "X-RateLimit-Reset", "99999999999999999999")
	f.Add(404, `{"message":"Not Found"}`, "Link", `<?a>; rel="next", <`)
	f.Fuzz(func(t *testing.T, status int, body, name, value string) {
		a := answered{status: status, body: []byte(body), header: http.Header{"X-Ratelimit-Remaining": {"0"}, "X-Accepted-Oauth-Scopes": {"a"}}}
		a.header.Set(name, value)
		if wait := a.retryAfter(); wait < 0 {
			t.Errorf("retry after %v", wait)
		}
		if err := a.refusal(); errors.Is(err, ErrUnknownCredential) {
			t.Error(err)
		}
		if a.lacksScope() && (status != 403 && status != 404 || !a.isGitHubsError()) {
			t.Error("a scope is missing in what GitHub did not refuse")
		}
		_ = a.next()
	})
}
