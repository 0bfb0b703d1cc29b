package modelserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ghostline-dev/ghostline/internal/httpserver"
	"github.com/ghostline-dev/ghostline/internal/service"
)

func TestCompletions(t *testing.T) {
	s := serve(t, Options{})
	want, reason := say(t, s.model, request{prompts: []string{"func New("}, maxTokens: 12})
	for _, protocol := range protocols {
		t.Run(protocol, func(t *testing.T) {
			c := s.clients[protocol]
			response, body := c.get(t, `{"model":"m","prompt":"func New(","max_tokens":12,"temperature":0}`)
			if response.StatusCode != http.StatusOK || response.Header.Get("Content-Type") != "application/json" {
				t.Fatalf("%s %s: %s", response.Status, response.Header.Get("Content-Type"), body)
			}
			if wanted := 1 + strings.Count(protocol, "2"); response.ProtoMajor != wanted {
				t.Errorf("the protocol was %s", response.Proto)
			}
			got := decode(t, body)
			if got.Object != "text_completion" || got.Model != "m" || !strings.HasPrefix(got.ID, "cmpl-") ||
				time.Since(time.Unix(got.Created, 0)).Abs() > time.Hour {
				t.Errorf("got %s", body)
			}
			if len(got.Choices) != 1 || got.Choices[0].Text != want || *got.Choices[0].FinishReason != reason {
				t.Errorf("got %s; want the text %q (%s)", body, want, reason)
			}
			if u := got.Usage; u == nil || u.Prompt != 3 || u.Completion != 12 || u.Total != 15 {
				t.Errorf("usage in %s; want 3 + 12 = 15", body)
			}
		})
	}
}

func TestStream(t *testing.T) {
	s := serve(t, Options{})
	want, reason := say(t, s.model, request{prompts: []string{"func New("}, maxTokens: 12})
	for _, protocol := range protocols {
		t.Run(protocol, func(t *testing.T) {
			// Without a length: in chunks, over HTTP/1.1.
			body := io.MultiReader(strings.NewReader(`{"model":"m\"\u00e9","prompt":"func New(","max_tokens":12,"temperature":0,"stream":true}`))
			response, err := s.clients[protocol].post(t.Context(), body)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			content, err := io.ReadAll(response.Body)
			if err != nil {
				t.Fatal(err)
			}
			if got := response.Header.Get("Content-Type"); got != "text/event-stream" {
				t.Errorf("content type %q", got)
			}
			all := events(t, string(content))
			if len(all) != 14 || all[13] != "[DONE]" {
				t.Fatalf("got %q; want an event for each of 12 tokens, one for the reason and [DONE]", all)
			}
			var said strings.Builder
			first := decode(t, all[0])
			for i, data := range all[:13] {
				got := decode(t, data)
				said.WriteString(got.Choices[0].Text)
				if got.ID != first.ID || got.Created != first.Created || got.Object != "text_completion" || got.Model != `m"é` || got.Usage != nil {
					t.Errorf("event %d is %s", i, data)
				}
				if ended := got.Choices[0].FinishReason; (ended != nil) != (i == 12) || ended != nil && *ended != reason {
					t.Errorf("event %d is %s; want the reason %q in the last", i, data, reason)
				}
			}
			if said.String() != want {
				t.Errorf("said %q; want %q", said.String(), want)
			}
		})
	}
}

func TestStreamCountsUsage(t *testing.T) {
	s := serve(t, Options{})
	_, body := s.clients["h2c"].get(t, `{"prompt":"func ","suffix":" zzz","max_tokens":3,"stream":true,"stream_options":{"include_usage":true}}`)
	all := events(t, body)
	for _, data := range all[:len(all)-2] {
		if !strings.HasSuffix(data, `,"usage":null}`) {
			t.Errorf("event %s; want a null usage", data)
		}
	}
	got := decode(t, all[len(all)-2])
	if got.Choices == nil || len(got.Choices) != 0 || got.Usage == nil || got.Usage.Prompt != 3 || got.Usage.Completion != 3 || got.Usage.Total != 6 {
		t.Errorf("the last event but one is %s; want no choices and 3 + 3 tokens", all[len(all)-2])
	}
}

func TestStreamIsSentAsItIsMade(t *testing.T) {
	s := serve(t, Options{})
	for _, protocol := range protocols {
		t.Run(protocol, func(t *testing.T) {
			// The server falls silent, so what arrives was not waiting for more.
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			response, err := s.clients[protocol].post(ctx, strings.NewReader(`{"prompt":"func ","stream":true}`), "hang-after=2")
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			var got strings.Builder
			buf := make([]byte, 1024)
			for strings.Count(got.String(), "\n\n") < 2 {
				n, err := response.Body.Read(buf)
				got.Write(buf[:n])
				if err != nil {
					t.Fatalf("after %q: %v", got.String(), err)
				}
			}
		})
	}
}

func TestSeveralCompletions(t *testing.T) {
	s := serve(t, Options{})
	const ask = `{"prompt":["func ","type "],"n":2,"max_tokens":5,"temperature":0`
	_, body := s.clients["h2"].get(t, ask+`}`)
	whole := decode(t, body)
	if len(whole.Choices) != 4 || whole.Usage.Completion != 20 || whole.Usage.Prompt != 4 {
		t.Fatalf("got %s; want 4 choices, 4 + 20 tokens", body)
	}
	_, body = s.clients["h2"].get(t, ask+`,"stream":true}`)
	streamed := make([]strings.Builder, 4)
	var order []int
	for _, data := range events(t, body) {
		if data == "[DONE]" {
			continue
		}
		choice := decode(t, data).Choices[0]
		streamed[choice.Index].WriteString(choice.Text)
		order = append(order, choice.Index)
	}
	if !slices.Equal(order[:8], []int{0, 1, 2, 3, 0, 1, 2, 3}) {
		t.Errorf("the choices came in the order %v; want them in turn", order)
	}
	for i := range streamed {
		want, _ := say(t, s.model, request{prompts: []string{[]string{"func ", "type "}[i/2]}, maxTokens: 5})
		if choice := whole.Choices[i]; choice.Index != i || choice.Text != want || streamed[i].String() != want {
			t.Errorf("choice %d is %q, streamed %q; want %q", choice.Index, choice.Text, streamed[i].String(), want)
		}
	}
}

func TestTokensPerEvent(t *testing.T) {
	s := serve(t, Options{TokensPerEvent: 4})
	_, body := s.clients["h1"].get(t, `{"prompt":"func New(","max_tokens":10,"temperature":0,"stream":true}`)
	if all := events(t, body); len(all) != 3+2 {
		t.Errorf("got %q; want 4 + 4 + 2 tokens, the reason and [DONE]", all)
	}
}

func TestStop(t *testing.T) {
	s := serve(t, Options{})
	free, _ := say(t, s.model, request{prompts: []string{"func New("}, maxTokens: 12})
	stop := free[len(free)/2 : len(free)/2+3]
	want, _, _ := strings.Cut(free, stop)
	for _, stream := range []bool{false, true} {
		_, body := s.clients["h2c"].get(t, fmt.Sprintf(
			`{"prompt":"func New(","max_tokens":12,"temperature":0,"stop":[%q,"zzz"],"stream":%t}`, stop, stream))
		data := []string{body}
		if stream {
			data = events(t, body)
			data = data[:len(data)-1]
		}
		var said, reason string
		for _, each := range data {
			choice := decode(t, each).Choices[0]
			said += choice.Text
			if choice.FinishReason != nil {
				reason = *choice.FinishReason
			}
		}
		if said != want || reason != reasonStop {
			t.Errorf("stream %t: said %q (%s); want %q (stop)", stream, said, reason, want)
		}
	}
}

func TestRefusals(t *testing.T) {
	s := serve(t, Options{Models: []string{"only"}})
	for _, test := range []struct {
		name, method, path, body string
		status                   int
		want                     string
	}{
		{"a wrong field", "POST", "/v1/completions", `{"prompt":3}`, 400,
			`{"error":{"message":"prompt is a number; it must be a string or an array of strings (tokens are not understood here)","type":"invalid_request_error","param":"prompt","code":null}}`},
		{"a wrong fault", "POST", "/v1/completions", `{"model":"only","prompt":"a"}`, 400, `header Modelserver-Fault: fault \"nonsense\": there is no such fault`},
		{"a wrong model", "POST", "/v1/completions", `{"model":"other","prompt":"a"}`, 404, `"code":"model_not_found"`},
		{"a wrong path", "POST", "/v1/chat/completions", `{}`, 404, `unknown path`},
		{"a wrong method", "GET", "/v1/completions", ``, 405, `wrong method`},
		{"too large", "POST", "/v1/completions", `{"prompt":"` + strings.Repeat("x", maxBodyBytes) + `"}`, 413, `larger than 8 MiB`},
	} {
		for _, protocol := range protocols {
			t.Run(test.name+"/"+protocol, func(t *testing.T) {
				c := s.clients[protocol]
				r, err := http.NewRequestWithContext(t.Context(), test.method, c.url+test.path, strings.NewReader(test.body))
				if err != nil {
					t.Fatal(err)
				}
				if test.name == "a wrong fault" {
					r.Header.Set(faultHeader, "nonsense")
				}
				response, err := c.Do(r)
				if err != nil {
					t.Fatal(err)
				}
				defer response.Body.Close()
				body, err := io.ReadAll(response.Body)
				if err != nil {
					t.Fatal(err)
				}
				if response.StatusCode != test.status || !strings.Contains(string(body), test.want) || response.Header.Get("Content-Type") != "application/json" {
					t.Errorf("got %s %s; want %d with %s", response.Status, body, test.status, test.want)
				}
				if allow := response.Header.Get("Allow"); (test.status == 405) != (allow == "POST") {
					t.Errorf("Allow is %q", allow)
				}
			})
		}
	}
	s.until(t, "an error for each refused completion", func(got Stats) bool { return got.Error == 5*4 && got.Inflight == 0 })
}

func TestConnectionsAreCounted(t *testing.T) {
	s := serve(t, Options{})
	for _, protocol := range protocols {
		for range 3 {
			s.clients[protocol].get(t, `{"prompt":"a"}`)
		}
	}
	if got := s.Stats(); got.Connections != 4 || got.ConnectionsOpened != 4 {
		t.Errorf("got %+v; want 4 connections, each used thrice", got)
	}
	for _, protocol := range protocols {
		s.clients[protocol].CloseIdleConnections()
	}
	s.until(t, "no connection", func(got Stats) bool { return got.Connections == 0 && got.ConnectionsOpened == 4 })
}

func TestSidePaths(t *testing.T) {
	s := serve(t, Options{})
	s.clients["h2"].get(t, `{"prompt":"func ","temperature":0,"max_tokens":3}`)
	s.until(t, "an answer", func(got Stats) bool { return got.OK == 1 && got.Inflight == 0 })
	for _, url := range []string{s.admin, s.clients["h1"].url} {
		if status, body := fetch(t, s, "GET", url+"/healthz", ""); status != 200 || body != "ok\n" {
			t.Errorf("/healthz: %d %q", status, body)
		}
		_, body := fetch(t, s, "GET", url+"/metrics", "")
		for _, line := range []string{
			`modelserver_requests_total{outcome="ok"} 1`, `modelserver_requests_total{outcome="cancelled"} 0`,
			`modelserver_requests_total{outcome="error"} 0`, `modelserver_requests_total{outcome="fault"} 0`,
			`modelserver_cancelled_total{phase="queued"} 0`, `modelserver_cancelled_total{phase="prefill"} 0`,
			`modelserver_cancelled_total{phase="decode"} 0`, `modelserver_tokens_generated_total 3`,
			`modelserver_saved_seconds_total 0`, `modelserver_inflight 0`, `modelserver_connections_opened_total `,
			`modelserver_connections `, `modelserver_busy_seconds_total `, `modelserver_working 0`,
		} {
			if !strings.Contains(body, "\n"+line) {
				t.Errorf("/metrics has no %s", line)
			}
		}
	}
	if status, _ := fetch(t, s, "GET", s.admin+"/readyz", ""); status != 200 {
		t.Errorf("/readyz: %d", status)
	}
}

// fetch sends a request on the side.
func fetch(t *testing.T, s *serving, method, url, body string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	response, err := s.clients["h1"].Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(content)
}

func TestNewRefuses(t *testing.T) {
	for want, o := range map[string]Options{
		"the first-token time is -1s":                {FirstToken: -time.Second},
		"per KiB is 2h0m0s; it must be from 0 to 1h": {FirstTokenPerKiB: 2 * time.Hour},
		"the step is -1ns":                           {Step: -1},
		"the tokens per second are -1":               {TokensPerSecond: -1},
		"from 0.01 to 1e+06, or 0":                   {TokensPerSecond: 0.001},
		"the tokens per event are -1":                {TokensPerEvent: -1},
		"the slots are -1":                           {Slots: -1},
		"a model name is empty":                      {Models: []string{"a", ""}},
		"there is no such fault":                     {Fault: "nonsense"},
		"no such file":                               {Corpus: []string{"/nowhere/at/all"}},
	} {
		if _, err := New(o); !errors.Is(err, service.ErrConfig) || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v; want service.ErrConfig with %q", err, want)
		}
	}
}

func TestRunNeedsAListener(t *testing.T) {
	if err := Run(t.Context(), Options{}); !errors.Is(err, service.ErrConfig) {
		t.Errorf("without a listener: %v", err)
	}
	listener := listen(t)
	defer listener.Close()
	if err := Run(t.Context(), Options{Listeners: httpserver.Listeners{TLS: listener}}); !errors.Is(err, service.ErrConfig) {
		t.Errorf("without a certificate: %v", err)
	}
}
