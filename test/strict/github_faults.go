package strict

import (
	"context"
	"encoding/base64"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// GitHubFault is what goes wrong with requests. The first that fits is taken. Of
// Primary, Secondary, OAuthError, Body and Status only the first set one counts;
// with none of them the request is answered as ever, after Hang and with Header.
type GitHubFault struct {
	// Path is what the path must begin with, without the prefix of an Enterprise
	// Server, User the login whose token it must have. "" is any.
	Path, User string
	// Times bounds the requests that it befalls. 0: all, until [GitHub.Heal], or
	// until the time is over that Reset or RetryAfter tells.
	Times int

	// Primary leaves whom it befalls without requests: 403, or 429 if Status says so,
	// x-ratelimit-remaining 0, and x-ratelimit-reset in Reset (default: one hour).
	// Until then they have none, whatever Times says.
	Primary bool
	Reset   time.Duration
	// Secondary is a secondary rate limit: 403, or 429 if Status says so, and
	// retry-after if RetryAfter is set; else a client must wait for a minute.
	Secondary  bool
	RetryAfter time.Duration
	// OAuthError is an error of /login/oauth/access_token, with status 200.
	OAuthError string
	// Body is answered as it is, with Status (default: 200), as JSON if Header does
	// not say otherwise. [GitHubErrorPage] is one that is not.
	Body string
	// Status is answered with GitHub's error of that status, and Message in it.
	Status  int
	Message string

	// Header is added to the answer's, and replaces what it has of the same names.
	Header http.Header
	// Hang answers only after it was closed, or Cut, which breaks the connection off.
	Hang <-chan struct{}
	Cut  bool

	end time.Time
}

// GitHubErrorPage is what comes instead of JSON when GitHub's front ends are unwell.
const GitHubErrorPage = "<!DOCTYPE html>\n<html>\n<head><title>Unicorn! &middot; GitHub</title></head>\n" +
	"<body><p><strong>No server is currently available to service your request.</strong></p></body>\n</html>\n"

// HTMLFault answers with an error page.
func HTMLFault(status int) GitHubFault {
	return GitHubFault{Status: status, Body: GitHubErrorPage, Header: http.Header{"Content-Type": {"text/html; charset=utf-8"}}}
}

// Fail appends faults.
func (g *GitHub) Fail(faults ...GitHubFault) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, f := range faults {
		g.faults = append(g.faults, &f)
	}
}

// Heal ends all faults, gives everybody their whole quota back, and forgets what
// clients were told to wait for.
func (g *GitHub) Heal() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.faults = nil
	clear(g.waits)
	clear(g.quotas)
}

// Hanging is the number of requests that hang now.
func (g *GitHub) Hanging() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.hanging
}

func (g *GitHub) takeFault(got *GitHubRequest) *GitHubFault {
	now := g.options.Now()
	g.faults = slices.DeleteFunc(g.faults, func(f *GitHubFault) bool { return !f.end.IsZero() && !now.Before(f.end) })
	for i, f := range g.faults {
		if !g.befalls(f, got) {
			continue
		}
		if f.Times > 0 {
			f.Times--
			if f.Times == 0 {
				g.faults = slices.Delete(g.faults, i, i+1)
			}
		}
		return f
	}
	return nil
}

func (g *GitHub) befalls(f *GitHubFault, got *GitHubRequest) bool {
	if !strings.HasPrefix(strings.TrimPrefix(got.Path, enterprisePrefix), f.Path) {
		return false
	}
	if f.User == "" {
		return true
	}
	_, value, _ := strings.Cut(got.credential, " ")
	t := g.token(value)
	return t != nil && strings.EqualFold(t.user.Login, f.User)
}

// suffer hangs or cuts the connection, and reports whether the client is still there.
func (g *GitHub) suffer(ctx context.Context, f *GitHubFault) bool {
	if f.Hang != nil {
		g.hang(1)
		defer g.hang(-1)
		select {
		case <-ctx.Done():
			return false
		case <-f.Hang:
		}
	}
	if f.Cut {
		panic(http.ErrAbortHandler)
	}
	return true
}

func (g *GitHub) hang(by int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.hanging += by
}

// fail is the answer of a fault, or nil if it leaves that to the host.
func (g *GitHub) fail(got *GitHubRequest, f *GitHubFault) *reply {
	r := g.faultReply(got, f)
	if r != nil && f.Body == "" && f.OAuthError == "" {
		return g.finish(got, r)
	}
	return r // of a front end, or of the web host
}

func (g *GitHub) faultReply(got *GitHubRequest, f *GitHubFault) *reply {
	switch {
	case f.Primary:
		wait := f.Reset
		if wait == 0 {
			wait = time.Hour
		}
		return g.primaryLimit(got, f, g.options.Now().Add(wait))
	case f.Secondary:
		return g.secondaryLimit(got, f)
	case f.OAuthError != "":
		return oauthReply(got, http.StatusOK, oauthError(f.OAuthError))
	case f.Body != "":
		return &reply{status: orStatus(f.Status, http.StatusOK), header: http.Header{"Content-Type": {"application/json; charset=utf-8"}}, body: []byte(f.Body)}
	case f.Status != 0:
		return gitHubError(f.Status, f.Message)
	}
	return nil
}

// primaryLimit: "you will receive a 403 or 429 response, and the
// x-ratelimit-remaining header will be 0. You should not retry your request until
// after the time specified by the x-ratelimit-reset header."
func (g *GitHub) primaryLimit(got *GitHubRequest, f *GitHubFault, reset time.Time) *reply {
	quota := g.quota(got.principal)
	if quota.limit == 0 { // an Enterprise Server without limits, but for this one
		quota.limit = 5000
	}
	quota.used, quota.reset = quota.limit, reset
	f.end = reset
	g.tellToWait(got, reset)
	return gitHubError(orStatus(f.Status, http.StatusForbidden), "API rate limit exceeded for "+got.principal+".")
}

// secondaryLimit: "If the retry-after response header is present, you should not
// retry your request until after that many seconds has elapsed. … Otherwise, wait
// for at least one minute before retrying."
func (g *GitHub) secondaryLimit(got *GitHubRequest, f *GitHubFault) *reply {
	r := gitHubError(orStatus(f.Status, http.StatusForbidden), "You have exceeded a secondary rate limit. Please wait a few minutes before you try again.")
	wait := time.Minute
	if f.RetryAfter > 0 {
		wait = f.RetryAfter
		r.header.Set("Retry-After", seconds(wait))
		f.end = g.options.Now().Add(wait)
	}
	g.tellToWait(got, g.options.Now().Add(wait))
	return r
}

func (g *GitHub) tellToWait(got *GitHubRequest, until time.Time) {
	if got.credential != "" {
		g.waits[got.credential] = until
	}
}

func orStatus(status, otherwise int) int {
	if status == 0 {
		return otherwise
	}
	return status
}

// gitHubQuota is what a principal has used of its primary rate limit.
type gitHubQuota struct {
	limit, used int
	reset       time.Time
}

func (g *GitHub) quota(principal string) *gitHubQuota {
	q := g.quotas[principal]
	if q == nil {
		q = &gitHubQuota{limit: g.options.Quota}
		if principal == anonymous {
			q.limit = min(60, q.limit) // "60 requests per hour", of an address
		}
		g.quotas[principal] = q
	}
	if now := g.options.Now(); !now.Before(q.reset) {
		q.used, q.reset = 0, now.Add(time.Hour)
	}
	return q
}

// anonymous is the principal of requests that have no good credential.
const anonymous = "127.0.0.1"

// principalOf is who a request counts against: a user or an app.
func (g *GitHub) principalOf(got *GitHubRequest) string {
	scheme, value, _ := strings.Cut(got.credential, " ")
	if strings.EqualFold(scheme, "basic") {
		if app := g.basicApp(value); app != nil {
			return "client ID " + app.id
		}
		return anonymous
	}
	if t := g.token(value); t != nil {
		return "user ID " + strconv.FormatInt(t.user.ID, 10)
	}
	return anonymous
}

// basicApp is the app whose id and secret these are, or nil.
func (g *GitHub) basicApp(encoded string) *gitHubApp {
	pair, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return nil
	}
	id, secret, _ := strings.Cut(string(pair), ":")
	if app := g.state.apps[id]; app != nil && app.secret == secret {
		return app
	}
	return nil
}

// limited counts the request, and returns the refusal if it is one too many.
func (g *GitHub) limited(got *GitHubRequest) *reply {
	got.principal = g.principalOf(got)
	if g.options.Quota == 0 {
		return nil
	}
	q := g.quota(got.principal)
	if q.used >= q.limit {
		return g.primaryLimit(got, &GitHubFault{}, q.reset)
	}
	q.used++
	return nil
}

// limitHeaders are "sent with each response".
func (g *GitHub) limitHeaders(got *GitHubRequest, r *reply) {
	q := g.quota(got.principal)
	if q.limit == 0 { // an Enterprise Server without limits
		return
	}
	maps.Copy(r.header, http.Header{
		"X-Ratelimit-Limit":     {strconv.Itoa(q.limit)},
		"X-Ratelimit-Remaining": {strconv.Itoa(q.limit - q.used)},
		"X-Ratelimit-Used":      {strconv.Itoa(q.used)},
		"X-Ratelimit-Reset":     {strconv.FormatInt(q.reset.Unix(), 10)},
		"X-Ratelimit-Resource":  {"core"},
	})
}
