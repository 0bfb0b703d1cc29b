package proxy

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/textproto"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ghostline-dev/ghostline/internal/token"
	"github.com/ghostline-dev/ghostline/proxy/config"
	"github.com/ghostline-dev/ghostline/proxy/provider"
	"github.com/ghostline-dev/ghostline/proxy/upstream"
)

func TestRequestID(t *testing.T) {
	for _, sent := range []string{"a", "0123-abc_DEF.x/y:z+=", strings.Repeat("a", maxIdentifier)} {
		if got := requestID(sent); got != sent {
			t.Errorf("%q became %q", sent, got)
		}
	}
	seen := map[string]bool{}
	for _, sent := range []string{"", " ", "a b", "a\nb", "é", `a"b`, "a,b", "a\x00", strings.Repeat("a", maxIdentifier+1)} {
		got := requestID(sent)
		if got == sent || len(got) < 20 || seen[got] || requestID(got) != got {
			t.Errorf("%q became %q", sent, got)
		}
		seen[got] = true
	}
}

func TestParseClient(t *testing.T) {
	for _, tc := range []struct {
		value string
		want  clientInfo
		ok    bool
	}{
		{"copilot/1.300.0", newClientInfo("copilot", "1.300.0"), true},
		{"OpenAI/Python 1.2.3", newClientInfo("OpenAI/Python", "1.2.3"), true},
		{"AsyncOpenAI/Python 1.2.3 (linux)", newClientInfo("AsyncOpenAI/Python", "1.2.3"), true},
		{"OpenAI/Python", newClientInfo("OpenAI", "Python"), true},
		{"OpenAI/Python x", newClientInfo("OpenAI", "Python"), true},
		{"curl/8 1.2", newClientInfo("curl", "8"), true},
		{"vscode/1.99.0-insider+1", newClientInfo("vscode", "1.99.0-insider+1"), true},
		{"curl/", newClientInfo("curl", ""), true},
		{"a/b/c", newClientInfo("a", "b/c"), true},
		{"", clientInfo{}, false},
		{"curl", clientInfo{}, false},
		{"/1.0", clientInfo{}, false},
		{" copilot/1", clientInfo{}, false},
		{"(copilot/1)", clientInfo{}, false},
		{"cöpilot/1", clientInfo{}, false},
		{"a/" + strings.Repeat("1", maxClientInfo), clientInfo{}, false},
	} {
		if got, ok := parseClient(tc.value, ""); got != tc.want || ok != tc.ok {
			t.Errorf("%q: %+v, %t; want %+v, %t", tc.value, got, ok, tc.want, tc.ok)
		}
	}
}

func TestIdentifyClient(t *testing.T) {
	for _, tc := range []struct {
		header textproto.MIMEHeader
		want   string
	}{
		{textproto.MIMEHeader{"Editor-Plugin-Version": {"copilot/1"}, "Editor-Version": {"vscode/2"}, "User-Agent": {"node/3"}}, "copilot"},
		{textproto.MIMEHeader{"Editor-Plugin-Version": {"?"}, "Editor-Version": {"vscode/2"}}, "vscode"},
		{textproto.MIMEHeader{"Editor-Version": {"vscode/"}, "Copilot-Language-Server-Version": {"1.280.0"}, "User-Agent": {"node/3"}}, "vscode"},
		{textproto.MIMEHeader{"Copilot-Language-Server-Version": {"1.280.0"}, "User-Agent": {"node/3"}}, "copilot-language-server"},
		{textproto.MIMEHeader{"Copilot-Language-Server-Version": {"server/1.280.0"}}, "server"},
		{textproto.MIMEHeader{"User-Agent": {"curl/8"}}, "curl"},
		{textproto.MIMEHeader{}, ""},
	} {
		x := &exchange{header: tc.header, snapshot: withRules(t)}
		if err := new(proxy).identifyClient(x); err != nil || x.client.name != tc.want {
			t.Errorf("%v: %+v, error %v; want %s", tc.header, x.client, err, tc.want)
		}
	}
}

func TestCompletionForm(t *testing.T) {
	for _, tc := range []struct {
		path   string
		form   form
		engine string
	}{
		{"/v1/completions", openAIForm{}, ""},
		{"/v1/fim/completions", mistralForm{}, ""},
		{"/v1/engines/copilot-codex/completions", openAIForm{}, "copilot-codex"},
		{"/v1/engines/a.b_c/completions", openAIForm{}, "a.b_c"},
		{"/v1/engines//completions", nil, ""},
		{"/v1/engines/completions", nil, ""},
		{"/v1/engines/a/b/completions", nil, ""},
		{"/v1/engines/a/completions/", nil, ""},
		{"/v1/completions/", nil, ""},
		{"/v1/chat/completions", nil, ""},
		{"/V1/completions", nil, ""},
		{"/", nil, ""},
		{"", nil, ""},
	} {
		f, engine, ok := completionForm(tc.path)
		if f != tc.form || engine != tc.engine || ok != (tc.form != nil) {
			t.Errorf("%s: %T, %q, %t; want %T, %q", tc.path, f, engine, ok, tc.form, tc.engine)
		}
	}
}

func TestMistralForm(t *testing.T) {
	for body, want := range map[string]string{
		`{"prompt":"a"}`:                        `{"prompt":"a"}`,
		`{"random_seed": 7 ,"prompt":"a"}`:      `{"seed":7,"prompt":"a"}`,
		`{"random_seed":7,"seed":1,"x":[1, 2]}`: `{"seed":7,"x":[1, 2]}`,
	} {
		if got := string(mistralForm{}.request([]byte(body))); got != want {
			t.Errorf("%s became %s, want %s", body, got, want)
		}
	}
	event := provider.Event{Data: []byte(`{"id":"c","choices":[{"index":1,"text":"a\n","logprobs":null,"finish_reason":null},{"index":0,"text":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":1}}`)}
	const choices = `"choices":[{"NAME":{"role":"assistant","content":"a\n"},"index":1,"finish_reason":null},` +
		`{"NAME":{"role":"assistant","content":""},"index":0,"finish_reason":"stop"}],"id":"c","usage":{"prompt_tokens":1}}`
	if got, want := string(mistralForm{}.appendEvent(nil, event)), `data: {"object":"chat.completion.chunk",`+strings.ReplaceAll(choices, "NAME", "delta")+"\n\n"; got != want {
		t.Errorf("event %s\nwant  %s", got, want)
	}
	if got, want := string(mistralForm{}.answer(event)), `{"object":"chat.completion",`+strings.ReplaceAll(choices, "NAME", "message"); got != want {
		t.Errorf("answer %s\nwant   %s", got, want)
	}
}

func TestRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // for its clock, which stands still
		in := func(d time.Duration) string { return time.Now().Add(d).UTC().Format(http.TimeFormat) }
		for _, tc := range []struct {
			ms, after string
			want      time.Duration
		}{
			{"", "", 0},
			{"1500", "30", 1500 * time.Millisecond},
			{"12.5", "", 12500 * time.Microsecond},
			{"0", "2", 2 * time.Second},
			{"-5", "2", 2 * time.Second},
			{"x", "2", 2 * time.Second},
			{"NaN", "2", 2 * time.Second},
			{"1e300", "", time.Minute},
			{"Inf", "", time.Minute},
			{"", "61", time.Minute},
			{"", "9999999999999", time.Minute},
			{"", "99999999999999999999", 0},
			{"", "-1", 0},
			{"", "1.5", 0},
			{"", in(30 * time.Second), 30 * time.Second},
			{"", in(time.Hour), time.Minute},
			{"", in(-time.Hour), 0},
			{"", "soon", 0},
		} {
			header := textproto.MIMEHeader{}
			header.Set("Retry-After-Ms", tc.ms)
			header.Set("Retry-After", tc.after)
			if got := retryAfter(header, time.Now()); got != tc.want {
				t.Errorf("retry-after-ms %q, retry-after %q: %s, want %s", tc.ms, tc.after, got, tc.want)
			}
		}
	})
}

// TestLimitReset: OpenAI says when a limit is whole again, others have numbers there
// that mean nothing.
func TestLimitReset(t *testing.T) {
	for _, tc := range []struct {
		header map[string]string
		want   time.Duration
	}{
		{map[string]string{"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "120ms"}, 120 * time.Millisecond},
		{map[string]string{"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "6m0s"}, time.Minute},
		{map[string]string{"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "1s", "x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "2s"}, 2 * time.Second},
		{map[string]string{"x-ratelimit-remaining-requests": "9", "x-ratelimit-reset-requests": "1s"}, 0},
		{map[string]string{"x-ratelimit-remaining-requests": "-1", "x-ratelimit-reset-requests": "1s"}, 0},
		{map[string]string{"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "0"}, 0},
		{map[string]string{"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "12"}, 0},
		{map[string]string{"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "-1s"}, 0},
		{map[string]string{"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "1s", "retry-after": "5"}, 5 * time.Second},
	} {
		header := textproto.MIMEHeader{}
		for name, value := range tc.header {
			header.Set(name, value)
		}
		if got := retryAfter(header, time.Now()); got != tc.want {
			t.Errorf("%v: %s, want %s", tc.header, got, tc.want)
		}
	}
}

// TestCool is how long a unit is left alone: as it says.
func TestCool(t *testing.T) {
	for ms, want := range map[string]time.Duration{"": time.Second, "20": 20 * time.Millisecond, "2500": 2500 * time.Millisecond} {
		header := textproto.MIMEHeader{}
		header.Set("Retry-After-Ms", ms)
		if e := asClientError(refusal(&unit{}, 429, header, nil)); e.cool != want {
			t.Errorf("retry-after-ms %q: left alone for %s, want %s", ms, e.cool, want)
		}
	}
}

func TestRetryAfterSeconds(t *testing.T) {
	for d, want := range map[time.Duration]string{0: "1", time.Millisecond: "1", time.Second: "1", time.Second + 1: "2", 90 * time.Second: "90"} {
		if got := retryAfterSeconds(d); got != want {
			t.Errorf("%s is %q seconds, want %q", d, got, want)
		}
	}
}

// limitAt is the stage limit for a subject at a time.
func limitAt(p *proxy, limits config.SubjectLimits, subject string, at time.Time) (*exchange, *clientError) {
	x := &exchange{
		start: at, claims: &token.Claims{Subject: subject},
		snapshot: &snapshot{config: &config.Config{Limits: config.Limits{PerSubject: limits}}},
	}
	if err := p.limit(x); err != nil {
		return x, asClientError(err)
	}
	return x, nil
}

func TestLimitRate(t *testing.T) {
	p, now := &proxy{subjects: newSubjects()}, time.Unix(1_800_000_000, 0)
	limits := config.SubjectLimits{InFlight: 100, RequestsPerSecond: 2, Burst: 3}
	for i := range 3 {
		if _, e := limitAt(p, limits, "u-1", now); e != nil {
			t.Fatalf("request %d of the burst: %v", i+1, e)
		}
	}
	for range 5 { // who is refused pays nothing
		_, e := limitAt(p, limits, "u-1", now)
		if e == nil || e.status != 429 || e.code != "too_many_requests" || e.retryAfter != 500*time.Millisecond || e.outcome != outcomeLimited {
			t.Fatalf("over the burst: %+v", e)
		}
		if !strings.Contains(e.message, "more than 2 requests a second") {
			t.Errorf("message %q", e.message)
		}
	}
	if _, e := limitAt(p, limits, "u-2", now); e != nil {
		t.Errorf("another subject: %v", e)
	}
	if _, e := limitAt(p, limits, "u-1", now.Add(500*time.Millisecond)); e != nil {
		t.Errorf("after the time it was told: %v", e)
	}
}

func TestNewLimitsHoldAtOnce(t *testing.T) {
	p, now := &proxy{subjects: newSubjects()}, time.Unix(1_800_000_000, 0)
	narrow := config.SubjectLimits{InFlight: 1, Sessions: 1, RequestsPerSecond: 1, Burst: 1}
	wide := config.SubjectLimits{InFlight: 5, Sessions: 1, RequestsPerSecond: 5, Burst: 5}
	old, _ := limitAt(p, narrow, "u-1", now)
	if err := p.enterSession(old); err != nil {
		t.Fatal(err)
	}
	var latest *exchange
	for range 5 {
		x, e := limitAt(p, wide, "u-1", now)
		if e != nil {
			t.Fatal(e)
		}
		if err := p.enterSession(x); err != nil {
			t.Fatal(err)
		}
		latest = x
	}
	old.place.leave()
	if got := latest.subject.running; got != 5 {
		t.Errorf("the end of a request under the old limits left %d running under the new ones, want 5", got)
	}
}

// clockOf is a clock whose parts take 1s for the first byte, 2s idle, 3s for a
// write and 10s in all.
func clockOf(t *testing.T, stream bool) (*clock, context.Context) {
	return clockThat(t, &exchange{ask: ask{stream: stream}}, nil)
}

// clockThat is such a clock of an exchange, in a proxy that may stand still.
func clockThat(t *testing.T, x *exchange, standstill *upstream.Standstill) (*clock, context.Context) {
	ctx, cancel := context.WithCancelCause(t.Context())
	t.Cleanup(func() { cancel(nil) })
	x.received, x.snapshot = time.Now(), &snapshot{config: &config.Config{Timeouts: config.Timeouts{
		FirstByte: config.Duration(time.Second), Idle: config.Duration(2 * time.Second),
		Write: config.Duration(3 * time.Second), Total: config.Duration(10 * time.Second),
	}}}
	return startClock(x, standstill, cancel), ctx
}

func TestClock(t *testing.T) {
	for _, tc := range []struct {
		name        string
		stream      bool
		steps       func(c *clock)
		want        time.Duration // since the start
		interrupted bool
	}{
		{"first byte", true, func(*clock) {}, time.Second, false},
		{"a unary answer has all the time", false, func(*clock) {}, 10 * time.Second, false},
		{"reading", true, func(c *clock) { c.reading() }, 2 * time.Second, false},
		{"writing", true, func(c *clock) { c.writing() }, 3 * time.Second, true},
		{"reading after writing", true, func(c *clock) { c.writing(); c.reading() }, 2 * time.Second, false},
		{"each step anew", true, func(c *clock) {
			for range 3 {
				c.gotEvent()
				c.reading()
				<-time.After(1900 * time.Millisecond) // of the bubble's clock
			}
			c.writing()
		}, 3*1900*time.Millisecond + 3*time.Second, true},
		{"what is no event does not count", true, func(c *clock) {
			for range 5 {
				c.reading()
				<-time.After(300 * time.Millisecond)
				c.writing()
			}
			c.reading()
		}, 2 * time.Second, false},
		{"a write may pass the end", true, func(c *clock) {
			for range 5 {
				c.gotEvent()
				c.reading()
				<-time.After(1900 * time.Millisecond)
			}
			c.writing()
		}, 5*1900*time.Millisecond + 3*time.Second, true},
		{"never past the end", true, func(c *clock) {
			for range 5 {
				c.gotEvent()
				c.reading()
				<-time.After(1900 * time.Millisecond)
			}
			c.gotEvent()
			c.reading()
		}, 10 * time.Second, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				c, ctx := clockOf(t, tc.stream)
				interrupted := make(chan struct{})
				c.onBlockedWrite(func() { close(interrupted) })
				tc.steps(c)
				<-ctx.Done()
				synctest.Wait()
				if got := time.Since(start); got != tc.want || !errors.Is(context.Cause(ctx), errTooLate) {
					t.Errorf("ended after %s by %v, want %s", got, context.Cause(ctx), tc.want)
				}
				select {
				case <-interrupted:
					if !tc.interrupted {
						t.Error("a write was interrupted that was none")
					}
				default:
					if tc.interrupted {
						t.Error("the write was not interrupted")
					}
				}
				c.stop()
			})
		})
	}
}

func TestClockStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, ctx := clockOf(t, true)
		c.onBlockedWrite(func() { t.Error("interrupted after the stop") })
		c.writing()
		c.stop()
		c.writing() // a step that begins after it
		<-time.After(time.Hour)
		synctest.Wait()
		if ctx.Err() != nil {
			t.Errorf("ended by %v after the stop", context.Cause(ctx))
		}
	})
}

func TestClientErrorBody(t *testing.T) {
	e := badRequest("the field %q is \"bad\"\n", "é<>")
	e.cause = errors.New("secret")
	const want = `{"error":{"message":"the field \"é\u003c\u003e\" is \"bad\"\n","type":"invalid_request_error","code":"invalid_request"}}`
	if got := string(e.body()); got != want {
		t.Errorf("body %s\nwant %s", got, want)
	}
	if got := fmt.Sprint(e); !strings.HasSuffix(got, ": secret") || !errors.Is(e, e.cause) {
		t.Errorf("the log gets %q", got)
	}
}
