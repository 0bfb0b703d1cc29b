package proxy

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"net/textproto"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/ghostline-dev/ghostline/internal/httpserver"
	"github.com/ghostline-dev/ghostline/proxy/sse"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// shortWithin bounds the sending of what is no completion to a client that does
// not read.
const shortWithin = 10 * time.Second

// ServeHTTP is everything on the traffic ports.
func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor == 1 && p.draining.Load() {
		// HTTP/1.1 has no GOAWAY: a request that crosses the closing of its idle
		// connection is lost.
		w.Header().Set("Connection", "close")
	}
	if stranger := p.serve(w, r); stranger && r.Context().Err() != nil {
		p.strangerLeft(r.Context())
	}
}

// serve answers a request and says whether that came without a valid token.
func (p *proxy) serve(w http.ResponseWriter, r *http.Request) (stranger bool) {
	switch r.URL.Path {
	case "/readyz":
		p.readyz(w, r)
		return true
	case "/regionz":
		p.regionz(w, r)
		return true
	case "/v1/models":
		return p.serveModels(w, r)
	case "/v1/feedback":
		return p.serveFeedback(w, r)
	}
	f, engine, ok := completionForm(r.URL.Path)
	switch {
	case !ok:
		p.refuse(w, r, notFound("path_not_found", "this path is not known; completions are at /v1/completions, "+
			"/v1/engines/{model}/completions and /v1/fim/completions, the models at /v1/models, feedback at /v1/feedback"))
		return true
	case r.Method != http.MethodPost:
		p.refuse(w, r, wrongMethod(r.Method, http.MethodPost))
		return true
	}
	return p.serveCompletion(w, r, f, engine)
}

// serveCompletion takes a completion request through the stages to its one
// outcome, and says whether it came without a valid token.
func (p *proxy) serveCompletion(w http.ResponseWriter, r *http.Request, f form, engine string) (stranger bool) {
	x := p.begin(w, r, f, engine)
	ctx, cut := context.WithCancelCause(r.Context())
	defer cut(nil)
	x.cut = cut
	err := p.protect(func() error { return p.complete(ctx, w, x) })
	// Whatever else went wrong, nobody waits for it, unless it is we who ended the
	// read of a body, and the connection's context with it.
	if err != nil && r.Context().Err() != nil && !endsReading(err) {
		err = errCancelled
	}
	p.record(x, err)
	if err != nil {
		p.fail(w, r, x, err)
	}
	return x.stranger
}

// begin makes the exchange and loads the snapshot that it keeps to its end.
func (p *proxy) begin(w http.ResponseWriter, r *http.Request, f form, engine string) *exchange {
	p.inFlight.Add(1)
	return &exchange{
		header:     textproto.MIMEHeader(r.Header),
		source:     requestBody{r, w},
		length:     r.ContentLength,
		form:       f,
		engine:     engine,
		connection: httpserver.ConnectionOf(r.Context()),
		start:      time.Now(),
		snapshot:   p.loader.current.Load(),
		trace:      traceContextOf(textproto.MIMEHeader(r.Header)),
		stranger:   true,
		phase:      phaseReceive,
	}
}

// complete is the request's path. Each stage is in a file of its own: admit,
// authenticate, client, limit, shed, session, body, match, variant; then try, which for each try
// goes through unit, prepare and attempt; then mirror and stream.
func (p *proxy) complete(ctx context.Context, w http.ResponseWriter, x *exchange) error {
	for _, stage := range p.stages {
		if err := stage(x); err != nil {
			return err
		}
	}
	setRequestID(w.Header(), x.id)
	setWarning(w.Header(), x)
	defer context.AfterFunc(ctx, x.notice)()
	a, err := p.try(ctx, x)
	if err != nil {
		return err
	}
	defer p.close(a)
	p.mirror(ctx, x)
	p.served.remember(p.served.key(x.claims.Subject, x.id), x.variant.feedback)
	x.body, x.mutated.body = nil, nil // nothing is tried again
	err = p.stream(w, a)
	p.attempted(x, err)
	return err
}

// newStages lists the stages before a unit is involved, in their order.
func (p *proxy) newStages() []func(*exchange) error {
	return []func(*exchange) error{
		p.admit,
		p.authenticate,
		p.traceRequest,
		p.identifyClient,
		p.limit,
		p.shed,
		p.enterSession,
		p.readBody,
		p.match,
		p.pickVariant,
		p.pickMirror,
	}
}

// protect turns a panic into an error: a mistake in one request must not take
// the others of its connection down.
func (p *proxy) protect(serve func() error) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			p.log.Error("panic", "cause", fmt.Sprint(cause), "stack", string(debug.Stack()))
			err = internalError(fmt.Errorf("panic: %v", cause))
		}
	}()
	return serve()
}

// fail answers a request that has no completion, or breaks off the answer that
// has begun.
func (p *proxy) fail(w http.ResponseWriter, r *http.Request, x *exchange, err error) {
	e := asClientError(err)
	switch {
	case e == nil && r.ProtoMajor == 1:
		// A handler that writes nothing is answered 200, and a client that only
		// closed its half of the connection would take that for a completion.
		panic(http.ErrAbortHandler)
	case e == nil: // the stream is gone
	case x.phase == phaseStream:
		p.breakOff(w, x, e)
	default:
		if x.received.IsZero() {
			leaveBody(w, r, e)
		}
		setWarning(w.Header(), x)
		writeError(w, x.id, e)
	}
}

// leaveBody is for an answer to a request whose body was not read to its end.
func leaveBody(w http.ResponseWriter, r *http.Request, err error) {
	switch {
	case !endsReading(err):
		httpserver.LeaveBody(w, r)
	case r.ProtoMajor == 1:
		// We ended the read, perhaps just as the body was whole. Then it is the
		// server's read for the next request that failed, which ends the contexts of
		// all that follow on the connection.
		w.Header().Set("Connection", "close")
	}
}

// breakOff ends a stream so that what came of it cannot be taken for all.
func (p *proxy) breakOff(w http.ResponseWriter, x *exchange, e *clientError) {
	if x.ask.stream && e.attempt != attemptCancelled { // it is not the client that does not read
		boundWrites(w, time.Duration(x.snapshot.config.Timeouts.Write))
		_, _ = w.Write(sse.Append(nil, e.body()))
		_ = http.NewResponseController(w).Flush()
	}
	panic(http.ErrAbortHandler)
}

// refuse answers a request that never becomes an exchange.
func (p *proxy) refuse(w http.ResponseWriter, r *http.Request, e *clientError) {
	httpserver.LeaveBody(w, r)
	writeError(w, requestID(r.Header.Get("X-Request-Id")), e)
}

func writeError(w http.ResponseWriter, id string, e *clientError) {
	header := w.Header()
	setRequestID(header, id)
	mediaType, body := e.content()
	header.Set("Content-Type", mediaType)
	header.Set("Cache-Control", "no-store")
	if e.final {
		header.Set("X-Should-Retry", "false") // OpenAI's SDKs obey it
	}
	if e.retryAfter > 0 {
		header.Set("Retry-After", retryAfterSeconds(e.retryAfter))
	}
	if e.challenge != "" {
		header.Set("WWW-Authenticate", e.challenge)
	}
	if e.allow != "" {
		header.Set("Allow", e.allow)
	}
	header.Set("Content-Length", strconv.Itoa(len(body)))
	boundWrites(w, shortWithin)
	w.WriteHeader(e.status)
	_, _ = w.Write(body) // an error means that the client is gone
}

// boundWrites ends a write that the client does not let through.
func boundWrites(w http.ResponseWriter, within time.Duration) {
	// An error means that the connection is gone, which ends writes too.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(within))
}

// setRequestID names the request twice: Copilot's clients take an answer
// without the second header for a firewall's.
func setRequestID(header http.Header, id string) {
	header["X-Request-Id"] = []string{id}
	header["X-Github-Request-Id"] = []string{id}
}

// setWarning has the client's user told that the client is old, whatever else the
// answer is.
func setWarning(header http.Header, x *exchange) {
	if text := x.warning(); text != "" {
		header["X-Ghostline-Warning"] = []string{text}
	}
}

// serveModels lists the models that the subject may use, and says whether the
// request came without a valid token.
func (p *proxy) serveModels(w http.ResponseWriter, r *http.Request) (stranger bool) {
	if r.Method != http.MethodGet {
		p.refuse(w, r, wrongMethod(r.Method, http.MethodGet))
		return true
	}
	httpserver.LeaveBody(w, r)
	x := p.begin(w, r, nil, "")
	defer p.inFlight.Add(-1)
	for _, stage := range []func(*exchange) error{p.admit, p.authenticate} {
		if err := stage(x); err != nil {
			writeError(w, x.id, asClientError(err))
			return x.stranger
		}
	}
	setRequestID(w.Header(), x.id)
	writeJSON(w, http.StatusOK, x.modelList())
	return false
}

// serveFeedback takes what a client says of a completion, and says whether the
// request came without a valid token.
func (p *proxy) serveFeedback(w http.ResponseWriter, r *http.Request) (stranger bool) {
	if r.Method != http.MethodPost {
		p.refuse(w, r, wrongMethod(r.Method, http.MethodPost))
		return true
	}
	x := p.begin(w, r, nil, "")
	defer p.inFlight.Add(-1)
	for _, stage := range []func(*exchange) error{p.admit, p.authenticate, p.limitFeedback, p.takeFeedback} {
		if err := stage(x); err != nil {
			if x.received.IsZero() {
				leaveBody(w, r, err)
			}
			writeError(w, x.id, asClientError(err))
			return x.stranger
		}
	}
	setRequestID(w.Header(), x.id)
	w.WriteHeader(http.StatusNoContent)
	return false
}

// readyz says whether this proxy should be sent requests. While draining it is
// 404, which HAProxy's disable-on-404 reads as: nothing new, let the rest finish.
func (p *proxy) readyz(w http.ResponseWriter, r *http.Request) {
	httpserver.LeaveBody(w, r)
	status, text := http.StatusOK, "ok\n"
	switch {
	case p.draining.Load():
		status, text = http.StatusNotFound, "draining\n"
	case p.loader.current.Load().auth == nil:
		status, text = http.StatusServiceUnavailable, errNoKeys.Error()+"\n"
	}
	writeText(w, status, text)
}

// regionz says whether clients should be sent to this region: what a load
// balancer or DNS of several regions asks. That this proxy drains does not change
// it, since the region's others go on.
func (p *proxy) regionz(w http.ResponseWriter, r *http.Request) {
	httpserver.LeaveBody(w, r)
	region := p.vote.status()
	text := region.Vote
	switch {
	case region.Problem != "":
		text += ": " + region.Problem
	case region.Vote == string(voteDown):
		text += ": it is well again, but not for long enough"
	}
	status := http.StatusServiceUnavailable
	if region.Vote == string(voteUp) {
		status = http.StatusOK
	}
	writeText(w, status, text+"\n")
}

func writeText(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	boundWrites(w, shortWithin)
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text)) // an error means that the client is gone
}

// adminHandler is everything on the admin port.
func (p *proxy) adminHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	mux.HandleFunc("GET /readyz", p.readyz)
	mux.HandleFunc("GET /regionz", p.regionz)
	mux.HandleFunc("GET /statusz", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, http.StatusOK, p.status()) })
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	mux.Handle("GET /metrics", promhttp.HandlerFor(p.registry, promhttp.HandlerOpts{Registry: p.registry}))
	return mux
}

func writeJSON(w http.ResponseWriter, status int, value any) {
	w.Header().Set("Content-Type", "application/json")
	boundWrites(w, shortWithin)
	w.WriteHeader(status)
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	_ = encoder.Encode(value) // an error means that the client is gone
}

// countConnection follows the clients' connections.
func (p *proxy) countConnection(_ net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		p.connections.Add(1)
		p.metrics.connectionsOpened.Inc()
	case http.StateClosed, http.StateHijacked:
		p.connections.Add(-1)
	}
}

// requestBody is a request's body together with its deadline.
type requestBody struct {
	r *http.Request
	w http.ResponseWriter
}

func (b requestBody) Read(p []byte) (int, error) { return b.r.Body.Read(p) }

func (b requestBody) SetReadDeadline(t time.Time) error {
	return http.NewResponseController(b.w).SetReadDeadline(t)
}
