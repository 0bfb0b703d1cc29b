package tokenissuer

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

// scarce lets three come at once from an address, two with a credential, and one more
// every 10 s of either.
func scarce(c *Config) {
	c.Limits = LimitsConfig{
		PerAddress:    RateConfig{RequestsPerSecond: 0.1, Burst: 3},
		PerCredential: RateConfig{RequestsPerSecond: 0.1, Burst: 2},
	}
}

func from(r *http.Request, address string) *http.Request {
	r.RemoteAddr = address
	return r
}

// statuses asks as often as there are requests.
func (i *issuer) statuses(requests ...*http.Request) (got []int) {
	for _, r := range requests {
		got = append(got, i.do(r).Code)
	}
	return got
}

func (i *issuer) wantStatuses(t *testing.T, want string, requests ...*http.Request) {
	t.Helper()
	if got := fmt.Sprint(i.statuses(requests...)); got != want {
		t.Errorf("statuses %s, want %s", got, want)
	}
}

func copilotWith(credential, address string) *http.Request {
	return from(askCopilot("token "+credential), address)
}

func wantRetryAfter(t *testing.T, answer *httptest.ResponseRecorder, least, most int) {
	t.Helper()
	if got, err := strconv.Atoi(answer.Header().Get("Retry-After")); err != nil || got < least || got > most {
		t.Errorf("Retry-After is %q, want %d to %d", answer.Header().Get("Retry-After"), least, most)
	}
}

// TestLimitPerCredential also holds that both forms of exchange share a bucket.
func TestLimitPerCredential(t *testing.T) {
	i := newIssuer(t, scarce)
	now := time.Now()
	i.limits.now = func() time.Time { return now }
	i.wantStatuses(t, "[200 200]", copilotWith(testCredential, "198.51.100.1:1"), from(post(goodForm().Encode()), "198.51.100.2:1"))
	i.log.Reset()
	answer := i.do(copilotWith(testCredential, "198.51.100.3:1"))
	wantAnswer(t, answer, http.StatusTooManyRequests, "no-store", "application/json")
	wantRetryAfter(t, answer, 10, 16)
	var got copilotRefusal
	if err := json.Unmarshal(answer.Body.Bytes(), &got); err != nil || got.Details.NotificationID != "limited" || got.Message == "" {
		t.Errorf("answer %s: %v", answer.Body, err)
	}
	if line := i.auditLine(t); line["result"] != "limited" || line["address"] != "198.51.100.3" || line["reason"] == "" || line["subject"] != "" {
		t.Errorf("audit line %v", line)
	}
	wantCount(t, i, "copilot", noProvider, resultLimited)
	answer = i.do(from(post(goodForm().Encode()), "198.51.100.3:1"))
	wantOAuthError(t, answer, http.StatusTooManyRequests, "temporarily_unavailable")
	wantRetryAfter(t, answer, 10, 16)
	i.wantStatuses(t, "[403 403 429]", copilotWith("other", "198.51.100.4:1"), copilotWith("other", "198.51.100.4:1"), copilotWith("other", "198.51.100.4:1"))

	now = now.Add(10 * time.Second)
	i.wantStatuses(t, "[200 429]", copilotWith(testCredential, "198.51.100.5:1"), copilotWith(testCredential, "198.51.100.5:1"))
	for endpoint, want := range map[string]float64{"copilot": 3, "oauth": 1} {
		if got := testutil.ToFloat64(i.limits.limited.WithLabelValues(endpoint, "credential")); got != want {
			t.Errorf("%v refusals of %s, want %v", got, endpoint, want)
		}
	}
}

func TestLimitPerAddress(t *testing.T) {
	for _, tc := range []struct{ name, first, same, other string }{
		{"IPv4", "198.51.100.1:1", "198.51.100.1:2", "198.51.100.2:1"},
		{"IPv4 as IPv6", "198.51.100.1:1", "[::ffff:198.51.100.1]:1", "[::ffff:198.51.100.2]:1"},
		{"IPv6", "[2001:db8:0:1::1]:1", "[2001:db8:0:1:ffff::2]:1", "[2001:db8:0:2::1]:1"},
		{"not known", "@", "", "198.51.100.2:1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			i := newIssuer(t, scarce)
			i.wantStatuses(t, "[403 403 401 429]", copilotWith("a", tc.first), copilotWith("b", tc.same), copilotWith("", tc.first), copilotWith("d", tc.same))
			i.wantStatuses(t, "[403]", copilotWith("e", tc.other))
			if got := testutil.ToFloat64(i.limits.limited.WithLabelValues("copilot", "address")); got != 1 {
				t.Errorf("%v refusals, want 1", got)
			}
		})
	}
}

// TestRefusedAddressTakesNothingFromTheCredential: others behind the same credential are
// not locked out by an address that asks too often.
func TestRefusedAddressTakesNothingFromTheCredential(t *testing.T) {
	i := newIssuer(t, scarce)
	i.wantStatuses(t, "[403 403 403]", copilotWith("a", "198.51.100.1:1"), copilotWith("b", "198.51.100.1:1"), copilotWith("c", "198.51.100.1:1"))
	for range 100 {
		i.wantStatuses(t, "[429]", copilotWith(testCredential, "198.51.100.1:1"))
	}
	i.wantStatuses(t, "[200 200 429]", copilotWith(testCredential, "198.51.100.2:1"), copilotWith(testCredential, "198.51.100.3:1"), copilotWith(testCredential, "198.51.100.2:1"))
}

// TestLimitOfAddressesBehindAnEdge: they have one each, and the edge's does not count.
func TestLimitOfAddressesBehindAnEdge(t *testing.T) {
	i := newIssuer(t, scarce, func(c *Config) { c.TrustedEdges = []string{"10.0.0.0/8"} })
	for n := range 10 {
		r := copilotWith(fmt.Sprint(n), "10.0.0.1:1")
		r.Header.Set("X-Forwarded-For", fmt.Sprintf("198.51.100.%d", n))
		i.wantStatuses(t, "[403]", r)
	}
}

// TestLimitReadsNoBody: who asks too often costs no reading.
func TestLimitReadsNoBody(t *testing.T) {
	i := newIssuer(t, scarce)
	for n := range 4 {
		body := &countingReader{Reader: strings.NewReader(goodForm().Encode())}
		r := httptest.NewRequest(http.MethodPost, pathOAuth, body)
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		i.do(r)
		if (body.reads == 0) != (n == 3) {
			t.Errorf("request %d: %d reads", n, body.reads)
		}
	}
}

type countingReader struct {
	*strings.Reader
	reads int
}

func (r *countingReader) Read(p []byte) (int, error) { r.reads++; return r.Reader.Read(p) }

func TestBucketsAreBounded(t *testing.T) {
	b := newBuckets[netip.Addr](RateConfig{RequestsPerSecond: 1, Burst: 1})
	now, address := time.Now(), netip.MustParseAddr("2001:db8::")
	for range maxBuckets + 10 {
		address = address.Next()
		if wait := b.take(address, now); wait != 0 {
			t.Fatalf("%s waits %v", address, wait)
		}
	}
	if n := b.used.Len(); n != maxBuckets {
		t.Errorf("%d buckets are remembered, want %d", n, maxBuckets)
	}
	if wait := b.take(address, now); wait != time.Second {
		t.Errorf("the last one waits %v, want 1s", wait)
	}
}

// TestRetriesAreSpread: those who were refused together do not come back together.
func TestRetriesAreSpread(t *testing.T) {
	seen := map[int64]bool{}
	for range 200 {
		after := seconds(tooMany("", time.Second).retryAfter)
		if after < 2 || after > 7 {
			t.Errorf("come again after %d s", after)
		}
		seen[after] = true
	}
	if len(seen) < 3 {
		t.Errorf("200 clients come again in %d different seconds", len(seen))
	}
}
