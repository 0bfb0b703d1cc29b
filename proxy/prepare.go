package proxy

import (
	"net/textproto"

	"github.com/ghostline-dev/ghostline/proxy/provider"
	"github.com/ghostline-dev/ghostline/proxy/sse"
)

// prepare turns the client's request into what the picked unit expects.
func (p *proxy) prepare(x *exchange) error {
	outbound, err := x.unit.dialect.Request(provider.Request{
		Body:       p.mutate(x),
		Model:      x.unit.model,
		Stream:     x.ask.stream,
		ID:         x.id,
		Unique:     p.unique,
		Credential: x.unit.credential,
	})
	if err != nil {
		e := badRequest("the model that serves this request cannot do it: %s", err)
		e.cause, e.attempt = err, attemptInvalid
		return e
	}
	x.outbound = outbound
	return nil
}

// unitHeader is that of the request to the unit. Of the client's only the request
// id and the trace context go on; its Authorization never does.
func (x *exchange) unitHeader() textproto.MIMEHeader {
	header := make(textproto.MIMEHeader, 8)
	header["Content-Type"] = []string{"application/json"}
	header["Accept"] = []string{contentType(x)}
	// A compressed stream comes in bursts.
	header["Accept-Encoding"] = []string{"identity"}
	header["User-Agent"] = []string{"ghostline"}
	header["X-Request-Id"] = []string{x.id}
	if trace := x.outgoing(); trace.parent != "" {
		header[traceParent] = []string{trace.parent}
		if trace.state != "" {
			header[traceState] = []string{trace.state}
		}
	}
	for _, h := range x.outbound.Headers {
		header.Set(h.Name, h.Value)
	}
	x.changeHeaders(header)
	return header
}

// contentType is what a unit's answer is to have.
func contentType(x *exchange) string {
	switch {
	case !x.ask.stream:
		return "application/json"
	case x.unit.dialect.Framing() == sse.Lines:
		return "application/x-ndjson"
	}
	return "text/event-stream"
}
