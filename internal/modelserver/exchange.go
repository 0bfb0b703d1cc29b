package modelserver

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"
)

// writeGrace is how much longer than planned a client may take to read its
// answer before it is cut off, so that it cannot keep a slot for ever.
const writeGrace = time.Minute

// serveCompletion is POST /v1/completions. An answer that is not whole ends in a
// stream reset or a closed connection, never as if it were.
func (s *Server) serveCompletion(w http.ResponseWriter, r *http.Request) {
	s.counters.inflight.Add(1)
	defer s.counters.inflight.Add(-1)
	ended, whole := s.complete(w, r)
	s.counters.requests[ended].Add(1)
	if !whole {
		panic(http.ErrAbortHandler)
	}
}

// complete answers a request. It returns how that ended, and whether the client
// has an answer that may be ended properly.
func (s *Server) complete(w http.ResponseWriter, r *http.Request) (ended outcome, whole bool) {
	arrived := time.Now()
	req, f, err := s.read(w, r)
	if err != nil {
		return refuse(w, r, err)
	}
	if f.answerAtOnce(w) {
		return outcomeFault, true
	}
	plan := s.planFor(req, f)
	job, err := s.engine.begin(r.Context(), plan)
	if err != nil {
		return cancelledQueued, false
	}
	if f.kind != faultHang {
		// Not every ResponseWriter can, and a test's recorder need not.
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(plan.total() + writeGrace))
	}
	x := &exchange{ctx: r.Context(), model: s.model, job: job, fault: f, out: s.answerFor(w, req, arrived)}
	return x.run(req)
}

// read reads the request and the fault that is to befall it.
func (s *Server) read(w http.ResponseWriter, r *http.Request) (*request, fault, error) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		return nil, fault{}, &apiError{status: http.StatusMethodNotAllowed, message: "wrong method: completions are asked for with POST"}
	}
	// To the end: only then does an HTTP/1.1 server see its client leave.
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBodyBytes))
	if err != nil {
		return nil, fault{}, err
	}
	f, err := s.faultFor(r)
	if err != nil {
		return nil, fault{}, err
	}
	req, err := parseRequest(body, s.options.Models)
	return req, f, err
}

// refuse answers a request that could not be read.
func refuse(w http.ResponseWriter, r *http.Request, err error) (ended outcome, whole bool) {
	var failure *apiError
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &failure):
	case r.Context().Err() != nil:
		return cancelledQueued, false
	case errors.As(err, &tooLarge):
		failure = &apiError{status: http.StatusRequestEntityTooLarge, message: "the body is larger than 8 MiB"}
	default:
		failure = invalid("", "the body could not be read to its end")
	}
	failure.write(w)
	return outcomeError, true
}

// planFor is the work that a request asks for.
func (s *Server) planFor(req *request, f fault) plan {
	size := len(req.suffix)
	for _, prompt := range req.prompts {
		size += len(prompt)
	}
	p := plan{
		prefill: s.options.FirstToken + f.slowStart +
			time.Duration(float64(size)/1024*float64(s.options.FirstTokenPerKiB)),
		tokens: len(req.prompts) * req.n * req.maxTokens,
	}
	if s.options.TokensPerSecond > 0 {
		p.perToken = time.Duration(float64(time.Second) / s.options.TokensPerSecond)
	}
	return p
}

func (s *Server) answerFor(w http.ResponseWriter, req *request, arrived time.Time) answer {
	id := newIdentity(req.model)
	w = &timed{w, arrived}
	if req.stream {
		return newEventStream(w, id, len(req.prompts)*req.n, s.options.TokensPerEvent, req.includeUsage)
	}
	return newDocument(w, id, len(req.prompts)*req.n)
}

// exchange is a request that has its slot.
type exchange struct {
	ctx         context.Context
	model       *model
	job         *job
	fault       fault
	out         answer
	completions []*completion
	usage       usage
}

// run does the work, ends the answer and gives the slot back.
func (x *exchange) run(req *request) (ended outcome, whole bool) {
	defer func() { x.job.end(ended >= cancelledQueued) }()
	x.completions, x.usage.prompt = newCompletions(x.model, req)
	ended = x.work()
	x.usage.completion = x.job.tokens
	switch {
	case ended == outcomeOK && x.fault.kind == faultNoDone:
		_ = x.out.end(x.usage, false)
		return outcomeFault, true
	case ended == outcomeOK:
		_ = x.out.end(x.usage, true) // the work is done, whether or not the client stayed
		return outcomeOK, true
	default:
		return ended, ended == outcomeFault && x.fault.kind == faultError
	}
}

// work generates the completions in turn, a token of each, until all have ended
// or the client has left or a fault strikes.
func (x *exchange) work() outcome {
	if x.job.prefill() != nil {
		return x.job.phase()
	}
	if x.fault.strikesAt(beforeHeaders) || x.fault.strikesAt(0) {
		return x.strike()
	}
	for live := len(x.completions); live > 0; {
		for i, c := range x.completions {
			if c.reason != "" {
				continue
			}
			if x.job.token() != nil {
				return x.job.phase()
			}
			text := c.step()
			if c.reason != "" {
				live--
			}
			err := x.send(i, text, c.reason)
			if errors.Is(err, errStruck) {
				return x.strike()
			}
			if err != nil && live > 0 {
				return x.job.phase()
			}
		}
	}
	return outcomeOK
}

// errStruck is the end of an exchange by its fault.
var errStruck = errors.New("a fault strikes")

// send sends the text of a token and, if it is there, the reason of the end.
func (x *exchange) send(index int, text, reason string) error {
	if err := x.out.text(index, text); err != nil {
		return err
	}
	if text != "" && x.fault.strikesAt(x.out.sent()) {
		return errStruck
	}
	if reason == "" || x.fault.kind == faultNoDone {
		return nil
	}
	return x.out.finish(index, reason)
}

// strike has the fault happen.
func (x *exchange) strike() outcome {
	if x.fault.after != beforeHeaders {
		if err := x.out.begin(); err != nil {
			return x.job.phase()
		}
	}
	switch x.fault.kind {
	case faultHang:
		<-x.ctx.Done()
		return x.job.phase()
	case faultError:
		_ = x.out.fail(&apiError{status: http.StatusInternalServerError, code: "fault", message: "the model server was told to fail"})
	}
	return outcomeFault
}
