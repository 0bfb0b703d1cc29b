package strict

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
)

// Options are what a provider has and expects.
type Options struct {
	// Key is the credential; "" expects none, and one that is sent is a violation.
	Key string
	// Model is the only model it has (AzureOpenAI: the deployment).
	Model string
	// APIVersion is the one that AzureOpenAI takes in the path of a deployment.
	// Default: "2024-10-21".
	APIVersion string
	// NoInsert has a model that was not taught to fill in the middle (Ollama, LlamaCpp).
	NoInsert bool
	// Slots bounds the completions of one request (LlamaCpp). Default: 4.
	Slots int
}

// Provider is the stand-in for one provider; an [http.Handler]. Its methods may
// be called at any time.
type Provider struct {
	options Options
	api     api

	mu        sync.Mutex
	scripts   []Script
	requests  []*Request
	cancelled map[Phase]int
	completed int
}

// api is what is particular to a provider.
type api interface {
	// judge reads the request into in.got and tells in what is wrong with it. It
	// returns the refusal, or nil if the provider serves the request.
	judge(in *inspection) *reply
	// failure is the provider's error with f.Status.
	failure(f Failure, got *Request) *reply
	// answer is the form of the answer to x.got.
	answer(x *exchange) answer
}

func newProvider(o Options, a api) *Provider {
	return &Provider{options: o, api: a, cancelled: map[Phase]int{}}
}

// Next appends the scripts of coming requests that are not refused, in the order of their arrival.
func (p *Provider) Next(scripts ...Script) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.scripts = append(p.scripts, scripts...)
}

// Requests are those that arrived and were read, refused ones too, in order.
func (p *Provider) Requests() []Request {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []Request
	for _, got := range p.requests {
		all = append(all, *got)
	}
	return all
}

// Violations says what in all requests the reference does not allow.
func (p *Provider) Violations() []string {
	return p.collect(func(r *Request) []string { return r.Violations })
}

// Unknown names, per request, the fields that the reference does not have and
// that this provider skips without an error.
func (p *Provider) Unknown() []string {
	return p.collect(func(r *Request) []string { return r.Unknown })
}

func (p *Provider) collect(of func(*Request) []string) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []string
	for i, got := range p.requests {
		for _, said := range of(got) {
			all = append(all, fmt.Sprintf("request %d: %s", i+1, said))
		}
	}
	return all
}

// Cancelled is the number of requests whose client left in the phase.
func (p *Provider) Cancelled(phase Phase) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cancelled[phase]
}

// Completed is the number of requests that were answered to the end, with a
// completion or an error.
func (p *Provider) Completed() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.completed
}

const maxBodyBytes = 16 << 20

// ServeHTTP implements [http.Handler].
func (p *Provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBodyBytes))
	if err != nil { // the client left while it sent: nothing arrived
		p.count(BeforeFirstByte, err)
		return
	}
	got := &Request{
		Method: r.Method, Path: r.URL.Path, Proto: r.Proto, Query: r.URL.Query(), Header: r.Header.Clone(), Body: body,
	}
	got.read()
	in := &inspection{got: got, options: p.options}
	in.headers()
	refusal := p.api.judge(in)
	if refusal != nil {
		got.Refused = refusal.status
		if len(got.Violations) == 0 {
			in.violate("refused with status %d", refusal.status)
		}
	}
	script := p.record(got)
	x := &exchange{got: got, options: p.options, script: script, w: w, control: http.NewResponseController(w)}
	if refusal != nil {
		p.count(BeforeFirstByte, x.reply(refusal))
		return
	}
	err = x.run(r.Context(), p.api)
	p.count(x.phase(), err)
}

// record notes the request and takes the script for it, if it is served.
func (p *Provider) record(got *Request) Script {
	p.mu.Lock()
	defer p.mu.Unlock()
	got.Violations = slices.Clip(got.Violations)
	p.requests = append(p.requests, got)
	if got.Refused != 0 || len(p.scripts) == 0 {
		return Script{}
	}
	script := p.scripts[0]
	p.scripts = p.scripts[1:]
	return script
}

func (p *Provider) count(phase Phase, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		p.cancelled[phase]++
		return
	}
	p.completed++
}
