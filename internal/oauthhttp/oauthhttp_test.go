package oauthhttp

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestPostForm(t *testing.T) {
	redirected := false
	mux := http.NewServeMux()
	mux.HandleFunc("POST /token", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Accept") != "application/json" || r.Header.Get("User-Agent") != "test/1" || r.PostFormValue("a") != "b&c" {
			t.Errorf("headers %v, form %v", r.Header, r.PostForm)
		}
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(http.StatusTooManyRequests)
		io.WriteString(w, "{}")
	})
	mux.HandleFunc("POST /moved", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
	})
	mux.HandleFunc("/elsewhere", func(http.ResponseWriter, *http.Request) { redirected = true })
	mux.HandleFunc("POST /large", func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, strings.Repeat("secret", maxBody))
	})
	s := httptest.NewServer(mux)
	defer s.Close()
	client := NewClient(nil)
	defer client.CloseIdleConnections()
	ask := func(path string) (Answer, error) {
		return PostForm(t.Context(), client, s.URL+path, "test/1", url.Values{"a": {"b&c"}})
	}
	if got, err := ask("/token"); err != nil || got.Status != http.StatusTooManyRequests || string(got.Body) != "{}" || got.RetryAfter != 7*time.Second {
		t.Errorf("answer %+v, %v", got, err)
	}
	if got, err := ask("/moved"); err != nil || got.Status != http.StatusTemporaryRedirect || redirected {
		t.Errorf("a redirect: answer %+v, %v, followed: %t", got, err, redirected)
	}
	if _, err := ask("/large"); err == nil || !strings.Contains(err.Error(), "more than 64 KiB") || strings.Contains(err.Error(), "secret") {
		t.Errorf("an endless answer: error %.200v", err)
	}
}

func TestParseURL(t *testing.T) {
	for raw, want := range map[string]string{
		"https://login.example.com/device?x=y": "",
		"http://127.0.0.1:8080/token":          "",
		"http://[::1]/token":                   "",
		"http://localhost/token":               "",
		"":                                     "should look like https://example.com",
		"login.example.com/device":             "should look like",
		"javascript:alert(1)":                  "should look like",
		"file:///etc/passwd":                   "should look like",
		"https:///device":                      "should look like",
		"https://u:hunter2@example.com/":       "no user and no fragment",
		"https://example.com/#x":               "no user and no fragment",
		"https://u:hunter2@example.com:x/":     "cannot be parsed",
		"http://login.example.com/device":      "in clear text",
		"http://localhost.example.com/device":  "in clear text",
	} {
		_, err := ParseURL("the URL", raw, "https://example.com")
		if (err == nil) != (want == "") || err != nil && (!strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2")) {
			t.Errorf("%q: error %v, want one with %q", raw, err, want)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	const date, later = "Tue, 15 Nov 1994 08:12:31 GMT", "Tue, 15 Nov 1994 08:13:01 GMT"
	for _, tc := range []struct {
		value, date string
		want        time.Duration
	}{
		{"", "", 0}, {"0", "", 0}, {"30", "", 30 * time.Second}, {"-1", "", 0}, {"99999999", "", 10 * time.Minute}, {"soon", "", 0},
		{later, date, 30 * time.Second}, {date, later, 0}, {later, "", 0}, {later, "now", 0},
	} {
		h := http.Header{"Retry-After": {tc.value}, "Date": {tc.date}}
		if got := RetryAfter(h); got != tc.want {
			t.Errorf("%q at %q: %v, want %v", tc.value, tc.date, got, tc.want)
		}
	}
}
