package interop

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"
)

// completion is a request, with these paths and values besides.
func completion(maxTokens int, fields ...any) string {
	body := fmt.Sprintf(`{"model":"ghost-code","prompt":%q,"suffix":%q,"max_tokens":%d,"temperature":0}`, before, behind, maxTokens)
	for i := 0; i < len(fields); i += 2 {
		var err error
		if body, err = sjson.Set(body, fields[i].(string), fields[i+1]); err != nil {
			panic(err)
		}
	}
	return body
}

// answer is what came of a request.
type answer struct {
	status int
	body   string
	events []gjson.Result // the one object, if it is not a stream
	done   bool           // the stream said [DONE]
	err    error
}

// begin asks the proxy over HTTP/2, with headers given as name, value.
func (s *stack) begin(ctx context.Context, body string, headers ...string) <-chan answer {
	s.t.Helper()
	return s.beginWith(ctx, s.token(), body, headers...)
}

// beginWith is begin with a completion token.
func (s *stack) beginWith(ctx context.Context, token, body string, headers ...string) <-chan answer {
	s.t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.files.ProxyURL()+"/v1/completions", strings.NewReader(body))
	check(s.t, err)
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	ended := make(chan answer, 1)
	go func() { ended <- exchange(s.http(), req) }()
	return ended
}

// complete is begin that waits.
func (s *stack) complete(ctx context.Context, body string) answer {
	s.t.Helper()
	return <-s.begin(ctx, body)
}

// http is a client that trusts the proxy.
func (s *stack) http() *http.Client {
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: s.roots}, ForceAttemptHTTP2: true}
	s.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

func exchange(client *http.Client, req *http.Request) (a answer) {
	resp, err := client.Do(req)
	if err != nil {
		return answer{err: err}
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		a = readStream(data)
	} else {
		a.events = []gjson.Result{gjson.ParseBytes(data)}
	}
	a.status, a.body, a.err = resp.StatusCode, string(data), err
	return a
}

// readStream reads the events of a stream.
func readStream(data []byte) (a answer) {
	a.body = string(data)
	for line := range bytes.Lines(data) {
		data, found := bytes.CutPrefix(bytes.TrimSpace(line), []byte("data: "))
		switch {
		case !found:
		case string(data) == "[DONE]":
			a.done = true
		default:
			a.events = append(a.events, gjson.ParseBytes(data))
		}
	}
	return a
}

// String is an answer as a failed test shows it.
func (a answer) String() string {
	return fmt.Sprintf("status %d, %d events, [DONE] %t, error %v, %.600s", a.status, len(a.events), a.done, a.err, a.body)
}

// text is what the choice of this index says.
func (a answer) text(index int64) string {
	var text strings.Builder
	a.choice(index, func(choice gjson.Result) { text.WriteString(choice.Get("text").Str) })
	return text.String()
}

// finish is its finish reason.
func (a answer) finish(index int64) (reason string) {
	a.choice(index, func(choice gjson.Result) { reason += choice.Get("finish_reason").Str })
	return reason
}

func (a answer) choice(index int64, see func(gjson.Result)) {
	for _, event := range a.events {
		for _, choice := range event.Get("choices").Array() {
			if choice.Get("index").Int() == index {
				see(choice)
			}
		}
	}
}

// tokens is the usage that the answer tells.
func (a answer) tokens() (tokens int64) {
	for _, event := range a.events {
		tokens += event.Get("usage.completion_tokens").Int()
	}
	return tokens
}
