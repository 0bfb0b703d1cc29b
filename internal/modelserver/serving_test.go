package modelserver

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/ghostline-dev/ghostline/internal/localca"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serving is a server on loopback, and how to reach it.
type serving struct {
	*Server
	clients map[string]client // by protocol
	admin   string            // URL
}

// client speaks one protocol with a server.
type client struct {
	*http.Client
	url string
}

var protocols = []string{"h2", "h2c", "h1", "h1 over TLS"}

// serve runs a server for as long as the test.
func serve(t *testing.T, o Options) *serving {
	t.Helper()
	ca, err := localca.New()
	if err != nil {
		t.Fatal(err)
	}
	if o.Listeners.Certificate, err = ca.ServerTLS(); err != nil {
		t.Fatal(err)
	}
	o.Log = slog.New(slog.DiscardHandler)
	o.Listeners.TLS, o.Listeners.Cleartext, o.Listeners.Admin = listen(t), listen(t), listen(t)
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	stopped := make(chan error, 1)
	go func() { stopped <- s.Run(ctx) }()

	secure, clear := "https://"+o.Listeners.TLS.Addr().String(), "http://"+o.Listeners.Cleartext.Addr().String()
	trust := &tls.Config{RootCAs: ca.Pool()}
	running := &serving{Server: s, admin: "http://" + o.Listeners.Admin.Addr().String(), clients: map[string]client{
		"h2":          newClient(secure, trust.Clone(), (*http.Protocols).SetHTTP2),
		"h2c":         newClient(clear, nil, (*http.Protocols).SetUnencryptedHTTP2),
		"h1":          newClient(clear, nil, (*http.Protocols).SetHTTP1),
		"h1 over TLS": newClient(secure, trust.Clone(), (*http.Protocols).SetHTTP1),
	}}
	t.Cleanup(func() {
		for _, c := range running.clients {
			c.CloseIdleConnections()
		}
		stop()
		if err := <-stopped; err != nil {
			t.Errorf("serving: %v", err)
		}
	})
	return running
}

func newClient(url string, trust *tls.Config, enable func(*http.Protocols, bool)) client {
	transport := &http.Transport{TLSClientConfig: trust, Protocols: new(http.Protocols)}
	enable(transport.Protocols, true)
	return client{&http.Client{Transport: transport}, url}
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return listener
}

// post sends a completion request. Its body has a length unless it is a plain
// io.Reader; then HTTP/1.1 sends it in chunks.
func (c client) post(ctx context.Context, body io.Reader, faults ...string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url+"/v1/completions", body)
	if err != nil {
		return nil, err
	}
	for _, fault := range faults {
		r.Header.Add(faultHeader, fault)
	}
	return c.Do(r)
}

// get posts and reads the whole answer.
func (c client) get(t *testing.T, body string, faults ...string) (*http.Response, string) {
	t.Helper()
	response, err := c.post(t.Context(), strings.NewReader(body), faults...)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatalf("reading the answer: %v", err)
	}
	return response, string(content)
}

// until waits for the server's counters to say something.
func (s *serving) until(t *testing.T, what string, holds func(Stats) bool) {
	t.Helper()
	giveUp := time.After(20 * time.Second)
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	for !holds(s.Stats()) {
		select {
		case <-look.C:
		case <-giveUp:
			t.Fatalf("it never came to %s; now %+v", what, s.Stats())
		}
	}
}

// chunk is a part of an answer, or all of it.
type chunk struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	Model   string `json:"model"`
	Choices []struct {
		Text         string  `json:"text"`
		Index        int     `json:"index"`
		FinishReason *string `json:"finish_reason"`
	} `json:"choices"`
	Usage *struct {
		Prompt     int `json:"prompt_tokens"`
		Completion int `json:"completion_tokens"`
		Total      int `json:"total_tokens"`
	} `json:"usage"`
}

// events takes a stream apart, and checks its framing on the way.
func events(t *testing.T, stream string) []string {
	t.Helper()
	if stream == "" {
		return nil
	}
	whole, ok := strings.CutSuffix(stream, "\n\n")
	if !ok {
		t.Fatalf("the last event is not ended: %q", stream)
	}
	var all []string
	for event := range strings.SplitSeq(whole, "\n\n") {
		data, ok := strings.CutPrefix(event, "data: ")
		if !ok || strings.Contains(data, "\n") {
			t.Fatalf("event %q is not one line of data", event)
		}
		all = append(all, data)
	}
	return all
}

// decode reads a chunk, and checks the fields that may not be left out.
func decode(t *testing.T, data string) chunk {
	t.Helper()
	var c chunk
	if err := json.Unmarshal([]byte(data), &c); err != nil {
		t.Fatalf("%q: %v", data, err)
	}
	var fields struct {
		Choices []map[string]any `json:"choices"`
	}
	if err := json.Unmarshal([]byte(data), &fields); err != nil {
		t.Fatal(err)
	}
	for _, choice := range fields.Choices {
		if logprobs, there := choice["logprobs"]; !there || logprobs != nil {
			t.Fatalf("%s: logprobs must be there and null", data)
		}
		if _, there := choice["finish_reason"]; !there {
			t.Fatalf("%s: finish_reason is missing", data)
		}
	}
	return c
}
