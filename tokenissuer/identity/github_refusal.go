package identity

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// secondaryPause is how long GitHub wants to be left alone if it does not say.
const secondaryPause = time.Minute

// error is what an answer means, in our words.
func (a answered) error(meaning string) error {
	return fmt.Errorf("GitHub, %s: the answer, status %d, %s", a.call.path, a.status, meaning)
}

func (a answered) outage(meaning string) error { return &OutageError{Cause: a.error(meaning)} }

func (a answered) garbage() error { return a.outage("is not what GitHub's REST API says") }

// refusal is the outage that an answer is which is no success and no denial.
func (a answered) refusal() error {
	if a.isLimited() {
		return &OutageError{Cause: a.error("is a rate limit"), RetryAfter: max(a.retryAfter(), time.Second)}
	}
	return a.outage("is a refusal that says nothing of the token")
}

// message is GitHub's text of an error; "" if the answer is none of GitHub's.
func (a answered) message() string {
	var got struct {
		Message string `json:"message"`
	}
	if !a.decode(&got) {
		return ""
	}
	return got.Message
}

// isGitHubsError tells GitHub from a gateway before it, and from a wrong URL.
func (a answered) isGitHubsError() bool { return a.message() != "" }

func (a answered) speaksOf(word string) bool {
	return strings.Contains(strings.ToLower(a.message()), word)
}

// isLimited knows primary limits by the header, secondary ones by Retry-After or by what
// the message says. Each comes with 403 or 429.
func (a answered) isLimited() bool {
	switch a.status {
	case http.StatusTooManyRequests:
		return true
	case http.StatusForbidden:
		return a.header.Get("X-RateLimit-Remaining") == "0" || a.header.Get("Retry-After") != "" ||
			a.speaksOf("rate limit") || a.speaksOf("abuse") || a.speaksOf("login attempts")
	}
	return false
}

// retryAfter is how long to leave GitHub alone: at most an hour, as the cache sees to.
func (a answered) retryAfter() time.Duration {
	// Our clock may be wrong, GitHub's agrees with itself.
	now, err := http.ParseTime(a.header.Get("Date"))
	if err != nil {
		now = time.Now()
	}
	if given := a.header.Get("Retry-After"); given != "" {
		if seconds, ok := wholeSeconds(given); ok {
			return seconds
		}
		if at, err := http.ParseTime(given); err == nil {
			return max(at.Sub(now), 0)
		}
	}
	if a.header.Get("X-RateLimit-Remaining") == "0" {
		if reset, ok := wholeSeconds(a.header.Get("X-RateLimit-Reset")); ok {
			return max(reset-time.Duration(now.Unix())*time.Second, 0)
		}
	}
	if a.isLimited() {
		return secondaryPause
	}
	return 0
}

// wholeSeconds reads seconds, also those since 1970.
func wholeSeconds(text string) (time.Duration, bool) {
	seconds, err := strconv.ParseInt(text, 10, 64)
	const most = int64(1<<63-1) / int64(time.Second)
	return time.Duration(min(max(seconds, 0), most)) * time.Second, err == nil
}

// lacksScope says that the token may not ask what was asked: it has none of the scopes
// that GitHub would accept. Tokens of GitHub Apps have no scopes, and no such headers.
func (a answered) lacksScope() bool {
	refused := a.status == http.StatusForbidden || a.status == http.StatusNotFound
	accepted, ok := a.header["X-Accepted-Oauth-Scopes"]
	has, ok2 := a.header["X-Oauth-Scopes"]
	if !refused || !ok || !ok2 || !a.isGitHubsError() {
		return false
	}
	wanted := scopes(accepted)
	return len(wanted) > 0 && !slices.ContainsFunc(scopes(has), func(scope string) bool { return slices.Contains(wanted, scope) })
}

func scopes(lines []string) (all []string) {
	for scope := range strings.SplitSeq(strings.Join(lines, ","), ",") {
		if scope = strings.TrimSpace(scope); scope != "" {
			all = append(all, scope)
		}
	}
	return all
}

// tellQuota is of the check alone: the other calls have the quota of the user.
func (g *GitHub) tellQuota(a answered) {
	remaining, err := strconv.Atoi(a.header.Get("X-RateLimit-Remaining"))
	if err == nil && remaining >= 0 && g.o.Quota != nil {
		g.o.Quota(remaining)
	}
}
