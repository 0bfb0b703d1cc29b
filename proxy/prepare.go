package proxy

import (
	"github.com/ghostline-dev/ghostline/proxy/provider"
)

// prepare turns the client's request into what the picked unit expects.
func (p *proxy) prepare(x *exchange) error {
	outbound, err := x.unit.dialect.Request(provider.Request{
		Body:       x.form.request(x.body),
		Model:      x.unit.model,
		Stream:     x.ask.stream,
		Credential: x.unit.credential,
	})
	if err != nil {
		e := badRequest("this request cannot be put to the model that serves it: %s", err)
		e.cause, e.attempt = err, attemptInvalid
		return e
	}
	x.outbound = outbound
	return nil
}
