package proxy

import (
	"context"
	"io"
	"net/textproto"
	"sync/atomic"
	"time"

	"github.com/ghostline-dev/ghostline/internal/httpserver"
	"github.com/ghostline-dev/ghostline/internal/token"
	"github.com/ghostline-dev/ghostline/proxy/provider"
	"github.com/ghostline-dev/ghostline/proxy/upstream"
	"go.opentelemetry.io/otel/trace"
)

// exchange is one completion request on its way through the stages, with what
// each stage found out. It belongs to the goroutine that serves the request.
type exchange struct {
	// What the client sent; set by the server.
	header textproto.MIMEHeader
	source bodySource
	length int64  // of the body; -1 if the client did not say
	form   form   // the API form of the path
	engine string // the model that the path names, if it does
	// connection is what it came on; it may carry other users too.
	connection *httpserver.Connection

	start    time.Time
	trace    traceContext // of the client
	span     trace.Span   // traceRequest; nil if no spans are wanted
	trySpan  trace.Span   // of the try that runs
	snapshot *snapshot
	id       string        // admit
	stranger bool          // it is not known to have a valid token; authenticate
	claims   *token.Claims // authenticate
	client   clientInfo    // identifyClient: the most telling of programs
	programs []clientInfo  // see clients
	rule     *clientRule   // identifyClient: the one that holds for the client, if any
	dryRun   *clientRule   // identifyClient: one that would hold in its place, but for its dryRun
	subject  *subjectState // limit
	place    *place        // enterSession
	bodyFrom time.Time     // readBody: when the wait for the body began
	body     []byte        // readBody
	bodySize int           // readBody
	received time.Time     // readBody: when the whole body had come
	ask      ask           // match
	model    *model        // match
	wanted   *variant      // pickVariant
	mirror   *mirror       // pickMirror; nil if it is not mirrored

	// How another goroutine ends the request; see supersede.
	cut          context.CancelCauseFunc
	isSuperseded atomic.Bool
	reading      atomic.Pointer[readDeadline] // of the body

	// The tries; see try.go.
	isProbe  bool          // ours, not a client's
	isMirror bool          // a copy of a client's
	size     upstream.Size // of the body
	variant  *variant      // wanted, or the fallback whose unit is tried
	tried    []*unit
	unable   []*unit     // those of tried whose providers cannot do it: they were not asked
	unit     *unit       // whose capacity the request holds
	onTrial  bool        // of the unit, which was ejected
	giveUp   func() bool // see clock.giveUp
	served   *unit       // the last unit that was asked
	refused  []*unit     // those of tried that did no work
	spill    spill       // what was passed over for the last unit
	mutated  mutated     // for variant
	outbound provider.Outbound

	// For record.
	phase      phase
	firstAsked time.Time     // when the first try began
	asked      time.Time     // when the last try began
	stood      time.Duration // how long the proxy had ever stood still when the first try began
	firstByte  time.Time
	written    time.Time // when the first byte had left
	// worked is how long the provider says that it worked before it answered, if
	// it has reported that.
	worked   time.Duration
	reported bool
	// noticed is when the client's cancel was noticed, after start; 0 before. told
	// is when the unit's connection had been told of it.
	noticed atomic.Int64 // a time.Duration
	told    time.Time
	tokens  int64 // events with text that went out
	usage   *provider.Usage
	// The answer's text and the comparison with the copy, if the request is
	// mirrored or a copy.
	transcript *transcript
	comparison *comparison
}

// bodySource is a request's body, whose arrival can be bounded in time.
type bodySource interface {
	io.Reader
	SetReadDeadline(time.Time) error
}

// phase is how far a request has come; cancels are counted by it.
type phase string

const (
	phaseReceive phase = "receive" // no unit is involved yet
	phaseQueue   phase = "queue"   // no connection to the unit yet
	phaseWait    phase = "wait"    // sent, no byte of the answer yet
	phaseStream  phase = "stream"  // the answer is going out
)

var phases = []phase{phaseReceive, phaseQueue, phaseWait, phaseStream}

// placed notes whether the request has a place on a connection to its unit.
func (x *exchange) placed(has bool) {
	x.phase = phaseQueue
	if has {
		x.phase = phaseWait
	}
}

// answerID is the id of an answer whose provider gives it none.
func (x *exchange) answerID() string { return "cmpl-" + x.id }

// notice notes that the client has cancelled.
func (x *exchange) notice() { x.noticed.Store(int64(time.Since(x.start))) }

// cancelTook is how long it took to tell the unit's connection of the cancel. It
// is told by the same event that notice hears of, and may be so before it.
func (x *exchange) cancelTook() time.Duration {
	noticed := time.Duration(x.noticed.Load())
	if noticed == 0 {
		return 0
	}
	return max(0, x.told.Sub(x.start)-noticed)
}

// overhead is what the proxy added before the first byte left. What lies between
// its parts is the wait for the body and for units.
func (x *exchange) overhead() time.Duration {
	return x.bodyFrom.Sub(x.start) + x.firstAsked.Sub(x.received) + x.written.Sub(x.firstByte)
}

// outcome is what became of a request. Every request has exactly one.
type outcome string

const (
	outcomeOK            outcome = "ok"
	outcomeCancelled     outcome = "cancelled"  // by the client: never an error
	outcomeSuperseded    outcome = "superseded" // by newer requests of the same editor session
	outcomeDenied        outcome = "denied"
	outcomeLimited       outcome = "limited"
	outcomeUpgrade       outcome = "upgrade" // the client is too old
	outcomeBadRequest    outcome = "bad_request"
	outcomeNoCapacity    outcome = "no_capacity"
	outcomeUpstreamError outcome = "upstream_error"
	outcomeTimeout       outcome = "timeout"
	outcomeInternal      outcome = "internal"
)

var outcomes = []outcome{outcomeOK, outcomeCancelled, outcomeSuperseded, outcomeDenied, outcomeLimited, outcomeUpgrade,
	outcomeBadRequest, outcomeNoCapacity, outcomeUpstreamError, outcomeTimeout, outcomeInternal}
