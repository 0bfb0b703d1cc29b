package strict

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// served is a provider behind a server that speaks HTTP/1.1 and h2c.
type served struct {
	*Provider
	url     string
	clients map[string]*http.Client // by protocol
}

const (
	testKey   = "test-key"
	testModel = "code"
)

func serve(t *testing.T, p *Provider) served {
	t.Helper()
	server := httptest.NewUnstartedServer(p)
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetHTTP1(true)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	t.Cleanup(server.Close)
	s := served{Provider: p, url: server.URL, clients: map[string]*http.Client{}}
	for name, choose := range map[string]func(*http.Protocols){
		"h1":  func(p *http.Protocols) { p.SetHTTP1(true) },
		"h2c": func(p *http.Protocols) { p.SetUnencryptedHTTP2(true) },
	} {
		transport := &http.Transport{Protocols: new(http.Protocols), DisableCompression: true}
		choose(transport.Protocols)
		t.Cleanup(transport.CloseIdleConnections)
		s.clients[name] = &http.Client{Transport: transport}
	}
	return s
}

// call is a request as a client that reads the reference sends it, and what is
// different about one.
type call struct {
	method  string            // default: POST
	path    string            // with a query
	headers map[string]string // instead of the usual ones; "" removes one
	body    string
}

func (c call) request(t *testing.T, url string, usual map[string]string) *http.Request {
	t.Helper()
	method := c.method
	if method == "" {
		method = http.MethodPost
	}
	request, err := http.NewRequestWithContext(t.Context(), method, url+c.path, strings.NewReader(c.body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	for _, headers := range []map[string]string{usual, c.headers} {
		for name, value := range headers {
			request.Header.Set(name, value)
			if value == "" {
				request.Header.Del(name)
			}
		}
	}
	return request
}

// do returns the answer and its whole body, which may end in an error.
func (s served) do(t *testing.T, protocol string, request *http.Request) (*http.Response, string, error) {
	t.Helper()
	response, err := s.clients[protocol].Do(request)
	if err != nil {
		return nil, "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return response, string(body), err
}

// subject is one API of one provider, for the tests that are the same for all.
type subject struct {
	name   string
	make   func(Options) *Provider
	path   string
	usual  map[string]string // headers
	unary  string            // a body that asks for an object
	stream string            // the same for a stream
}

func bearer() map[string]string { return map[string]string{"Authorization": "Bearer " + testKey} }

func subjects() []subject {
	openAIBody := `{"model":"code","prompt":"def f(","suffix":"return x","max_tokens":64,"stream":false}`
	noSuffix := `{"model":"code","prompt":"<PRE>def f(<SUF>return x<MID>","max_tokens":64,"stream":false}`
	all := []subject{
		{name: "OpenAI", make: OpenAI, path: "/v1/completions", unary: openAIBody},
		{name: "Azure", make: AzureOpenAI, path: "/openai/deployments/code/completions?api-version=2024-10-21", usual: map[string]string{"api-key": testKey},
			unary: `{"prompt":"def f(","suffix":"return x","max_tokens":64,"stream":false}`},
		{name: "Azure v1", make: AzureOpenAI, path: "/openai/v1/completions", usual: map[string]string{"api-key": testKey}, unary: openAIBody},
		{name: "vLLM", make: VLLM, path: "/v1/completions", unary: noSuffix},
		{name: "llama.cpp infill", make: LlamaCpp, path: "/infill", unary: `{"input_prefix":"def f(","input_suffix":"return x","n_predict":64,"stream":false}`},
		{name: "llama.cpp completions", make: LlamaCpp, path: "/v1/completions", unary: noSuffix},
		{name: "Ollama generate", make: Ollama, path: "/api/generate", unary: `{"model":"code","prompt":"def f(","suffix":"return x","options":{"num_predict":64},"stream":false}`},
		{name: "Ollama completions", make: Ollama, path: "/v1/completions", unary: openAIBody},
		{name: "Mistral", make: Mistral, path: "/v1/fim/completions", unary: openAIBody},
		{name: "DeepSeek", make: DeepSeek, path: "/beta/completions", unary: openAIBody},
	}
	for i := range all {
		if all[i].usual == nil {
			all[i].usual = bearer()
		}
		all[i].stream = strings.Replace(all[i].unary, `"stream":false`, `"stream":true`, 1)
	}
	return all
}

func subjectNamed(t *testing.T, name string) subject {
	t.Helper()
	for _, s := range subjects() {
		if s.name == name {
			return s
		}
	}
	t.Fatalf("no subject %q", name)
	return subject{}
}

func (s subject) serve(t *testing.T, o Options) served {
	t.Helper()
	o.Key, o.Model = testKey, testModel
	return serve(t, s.make(o))
}

// eventually waits for something that the server sees on its own time.
func eventually(t *testing.T, what string, happened func() bool) {
	t.Helper()
	deadline := time.NewTimer(10 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !happened() {
		select {
		case <-deadline.C:
			t.Fatalf("this never happened: %s", what)
		case <-tick.C:
		}
	}
}
