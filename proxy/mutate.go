package proxy

import (
	"bytes"
	"slices"

	"github.com/ghostline-dev/ghostline/proxy/config"
)

// mutated is a request as the mutations of one variant have it.
type mutated struct {
	variant *variant // nil before the first is tried
	body    []byte   // in OpenAI's form
	// ask is what the client asks for; the exchange's ask is of body.
	ask ask
	met []metMutation // those that match the request, in their order
}

// metMutation is a mutation that matches a request, and what it did.
type metMutation struct {
	*mutation
	result mutationResult
	err    error // why it is not applicable
}

// mutate returns the request's body in OpenAI's form, as the mutations of the
// variant that is tried have it. They are not done again for another unit of it,
// and begin with the client's request for those of another variant.
func (p *proxy) mutate(x *exchange) []byte {
	if x.mutated.variant == x.variant {
		return x.mutated.body
	}
	if x.mutated.variant != nil {
		x.ask = x.mutated.ask
	}
	x.mutated = mutated{variant: x.variant, body: x.form.request(x.body), ask: x.ask}
	for _, m := range x.variant.mutations {
		if x.misses(m) != "" {
			continue
		}
		result, err := x.undergo(m)
		x.mutated.met = append(x.mutated.met, metMutation{m, result, err})
		if !x.isProbe && !x.hadVariant() {
			m.results[result].Inc()
		}
	}
	return x.mutated.body
}

// hadVariant says whether a unit of the variant that is tried was tried before.
func (x *exchange) hadVariant() bool {
	before := x.tried[:max(0, len(x.tried)-1)]
	return slices.ContainsFunc(before, func(u *unit) bool { return u.variant == x.variant })
}

// misses is why a mutation of the variant is not for the request; empty if it is.
func (x *exchange) misses(m *mutation) string {
	if len(m.clients) > 0 && !slices.ContainsFunc(m.clients, x.isFrom) {
		return "it is for other clients"
	}
	if m.share == 1 || x.claims != nil && draw("mutation", m.name, x.claims.Subject) < m.share {
		return ""
	}
	return "the subject is not in its share"
}

// undergo does to the request what a mutation says, all of it or nothing.
func (x *exchange) undergo(m *mutation) (mutationResult, error) {
	body := x.mutated.body
	for i := range m.body {
		var err error
		if body, err = m.body[i].apply(body); err != nil {
			return mutationNotApplicable, err
		}
	}
	changed := !bytes.Equal(body, x.mutated.body)
	if changed && m.asks {
		next := ask{}
		if err := next.read(body); err != nil {
			return mutationNotApplicable, err
		}
		next.model = x.ask.model // the path may say another
		x.ask = next
	}
	x.mutated.body = body
	if !changed && len(m.headers) == 0 {
		return mutationUnchanged, nil
	}
	return mutationApplied, nil
}

// changeHeaders does to the header of a request to a unit what the mutations say
// that were applied to its body.
func (x *exchange) changeHeaders(header map[string][]string) {
	for _, m := range x.mutated.met {
		if m.result != mutationApplied {
			continue
		}
		for _, h := range m.headers {
			switch {
			case h.Op == config.OpSet:
				header[h.Name] = []string{h.Value}
			case h.Op == config.OpAdd:
				header[h.Name] = append(header[h.Name], h.Value)
			case h.Name == "User-Agent":
				header[h.Name] = []string{""} // else net/http sends its own
			default:
				delete(header, h.Name)
			}
		}
	}
}
