package login

import (
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/ghostline-dev/ghostline/client"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Secrets, which no error may have in it.
const (
	deviceCode  = "device-hunter2"
	accessToken = "gho_hunter2"
	refresh     = "ghr_hunter2"
)

// answer is one answer of a provider. A status of 0 is a connection that times out.
type answer struct {
	status     int
	body       string
	retryAfter string
}

// GitHub answers 200 to everything.
func ok(body string) answer { return answer{status: http.StatusOK, body: body} }

// refuse is an error as RFC 6749 section 5.2 has it.
func refuse(code string) answer {
	return answer{status: http.StatusBadRequest, body: `{"error":"` + code + `","error_description":"of \u001b[31mhub"}`}
}

const (
	goodCode  = `{"device_code":"device-hunter2","user_code":"WDJB-MJHT","verification_uri":"https://hub.example/device","expires_in":900,"interval":5}`
	goodToken = `{"access_token":"gho_hunter2","token_type":"bearer","scope":"x","refresh_token":"ghr_hunter2","expires_in":3600}`
)

// provider gives prepared answers, in a synctest bubble, and notes what it was asked when.
type provider struct {
	t       *testing.T
	answers []answer
	took    time.Duration // by a connection that times out
	start   time.Time
	asked   []asked
}

type asked struct {
	after time.Duration // since the request before, or the start
	form  url.Values
	path  string
}

func (p *provider) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Header.Get("Accept") != "application/json" {
		p.t.Error("no Accept: application/json, so that GitHub answers with a form")
	}
	if err := req.ParseForm(); err != nil {
		return nil, err
	}
	p.asked = append(p.asked, asked{time.Since(p.start), req.PostForm, req.URL.Path})
	if len(p.asked) > len(p.answers) {
		p.t.Errorf("asked %d times, but there are %d answers", len(p.asked), len(p.answers))
		return nil, errors.New("no answer left")
	}
	a := p.answers[len(p.asked)-1]
	if a.status == 0 {
		time.Sleep(p.took)
		p.start = time.Now()
		return nil, errors.New("connection timed out")
	}
	p.start = time.Now()
	resp := &http.Response{StatusCode: a.status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(a.body))}
	if a.retryAfter != "" {
		resp.Header.Set("Retry-After", a.retryAfter)
	}
	return resp, nil
}

func newProvider(t *testing.T, answers ...answer) (*provider, *Client) {
	p := &provider{t: t, answers: answers, start: time.Now()}
	c := New(Options{})
	c.http.Transport = p
	c.http.Timeout = 0 // the bubble's own time
	return p, c
}

func hub(kind client.TokenType) Provider {
	return Provider{Name: "hub", ClientID: "Iv1.app", Scope: "read:user", DeviceEndpoint: "https://hub.example/device/code",
		TokenEndpoint: "https://hub.example/token", Type: kind}
}

// wantError holds that err says something, and no secret.
func wantError(t *testing.T, err error, says string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), says) {
		t.Errorf("error %v, want one that says %q", err, says)
		return
	}
	if strings.Contains(err.Error(), "hunter2") || strings.ContainsRune(err.Error(), '\x1b') {
		t.Errorf("error %q has a secret or an escape sequence", err)
	}
}
