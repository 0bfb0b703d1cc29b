package modelserver

import "math/rand/v2"

// Reasons why a completion ended, as OpenAI names them.
const (
	reasonStop   = "stop"
	reasonLength = "length"
)

// completion is one continuation of a prompt as it comes into being.
type completion struct {
	generator *generator
	cutter    *cutter
	left      int    // tokens that it may still have
	reason    string // why it ended; empty while it goes on
}

// newCompletions starts what req asks for: n completions of each prompt, and
// returns them with the number of tokens read.
func newCompletions(m *model, req *request) (all []*completion, promptTokens int) {
	_, suffixTokens := tokens(req.suffix, 0)
	for _, prompt := range req.prompts {
		last, count := tokens(prompt, order)
		promptTokens += count + suffixTokens
		for range req.n {
			cut := newCutter(req.stops, req.suffix)
			all = append(all, &completion{
				generator: newGenerator(m, last, cut.anchor, req.temperature, req.random(len(all))),
				cutter:    cut,
				left:      req.maxTokens,
			})
		}
	}
	return all, promptTokens
}

// step generates one token and returns the text that may go out, which can be
// empty. It sets reason at the end.
func (c *completion) step() string {
	text := c.generator.next(c.cutter.spoken(c.cutter.held))
	if text == "" {
		c.reason = reasonStop
		return c.cutter.rest()
	}
	c.left--
	out, ended := c.cutter.push(text)
	switch {
	case ended:
		c.reason = reasonStop
	case c.cutter.mayBridge() && c.generator.bridges():
		c.reason = reasonStop
		out += c.cutter.last()
	case c.left == 0:
		c.reason = reasonLength
		out += c.cutter.rest()
	}
	return out
}

// random is the source that the completion with this index draws from: the same
// for the same seed, another for each completion of a request.
func (req *request) random(index int) *rand.Rand {
	switch {
	case req.temperature == 0:
		return nil
	case req.seed == nil:
		return rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	default:
		return rand.New(rand.NewPCG(uint64(*req.seed), uint64(index)))
	}
}
