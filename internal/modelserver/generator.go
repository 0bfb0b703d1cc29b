package modelserver

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
)

// repeatWindow is how many tokens in a row a completion may not say twice. It is
// long enough for the phrases that code repeats, and ends loops.
const repeatWindow = 8

// minHistory is the history, in tokens, that a draw keeps to if it can: with less
// it is word salad.
const minHistory = 2

// generator continues a prompt, a token at a time.
type generator struct {
	model *model
	// tokens are the end of the prompt and then, from own on, what was said.
	tokens []tokenID
	own    int
	// pending is the rest of the word that the prompt ends within.
	pending string
	// avoid are the tokens that the suffix may begin with; unknown if none.
	avoid [2]tokenID
	// random draws among the continuations; nil takes the most frequent.
	random      *rand.Rand
	temperature float64
}

// newGenerator makes a generator at the end of a prompt, given by its last
// tokens. nextText is what the suffix begins with, "" for none.
func newGenerator(m *model, prompt []string, nextText string, temperature float64, random *rand.Rand) *generator {
	g := &generator{model: m, temperature: temperature, avoid: [2]tokenID{unknown, unknown}}
	if temperature > 0 {
		g.random = random
	}
	if nextText != "" {
		first := nextText[:tokenLen(nextText)]
		g.avoid = [2]tokenID{m.lookup(first), m.lookup(" " + first)}
	}
	if len(prompt) < order {
		g.tokens = append(g.tokens, fileStart)
	}
	for i, text := range prompt {
		if i < len(prompt)-1 {
			g.tokens = append(g.tokens, m.lookup(text))
			continue
		}
		g.heal(text)
	}
	g.own = len(g.tokens)
	return g
}

// heal reads the prompt's last token. A cursor is often within a word, or after
// the space that belongs to the next one; then the token to go on with is one
// that begins with what is there, and its rest is the first thing to say.
func (g *generator) heal(text string) {
	id := g.choose(func(id tokenID) bool { return strings.HasPrefix(g.model.texts[id], text) })
	if id == unknown {
		g.tokens = append(g.tokens, g.model.lookup(text))
		return
	}
	g.tokens = append(g.tokens, id)
	g.pending = g.model.texts[id][len(text):]
}

// next returns the text of the next token, or "" where the file would end.
// Before anything is said, neither the file's end nor the suffix will do.
func (g *generator) next(said bool) string {
	if g.pending != "" {
		text := g.pending
		g.pending = ""
		return text
	}
	id := g.choose(func(id tokenID) bool {
		if !said && (id == fileEnd || id == g.avoid[0] || id == g.avoid[1]) {
			return false
		}
		return !g.repeats(id)
	})
	if id == unknown || id == fileEnd {
		return ""
	}
	g.tokens = append(g.tokens, id)
	return g.model.texts[id]
}

// bridges reports whether, in what the model was trained on, the beginning of
// the suffix comes next here.
func (g *generator) bridges() bool {
	for n := min(order-1, len(g.tokens)); n >= 2; n-- {
		if found := g.model.after[lastOf(g.tokens, n)]; len(found) > 0 {
			return slices.ContainsFunc(found, func(s successor) bool {
				return s.id == g.avoid[0] || s.id == g.avoid[1]
			})
		}
	}
	return false
}

// choose picks a token that will do from what followed the longest history in
// training that has one, down to the empty history, which any token follows. It
// returns unknown if none will do.
func (g *generator) choose(willDo func(tokenID) bool) tokenID {
	best := unknown
	for n := min(order-1, len(g.tokens)); n >= 0; n-- {
		found := g.model.after[lastOf(g.tokens, n)]
		id := g.pick(found, willDo)
		if id == unknown {
			continue
		}
		best = id
		if n <= minHistory || !g.backsOff(found) {
			break
		}
	}
	return best
}

// pick takes the most frequent successor that will do, or draws one.
func (g *generator) pick(found []successor, willDo func(tokenID) bool) tokenID {
	if g.random == nil {
		for _, s := range found {
			if willDo(s.id) {
				return s.id
			}
		}
		return unknown
	}
	// One pass: each successor takes the place of the one kept so far with the
	// probability of its share in the weight up to here.
	kept, sum := unknown, 0.0
	for _, s := range found {
		if !willDo(s.id) {
			continue
		}
		weight := math.Pow(float64(s.count), 1/g.temperature)
		sum += weight
		if g.random.Float64()*sum < weight {
			kept = s.id
		}
	}
	return kept
}

// backsOff draws whether to prefer a shorter history, with the probability that
// Witten and Bell give to a continuation not seen in training: high where the
// history was seen seldom, or was followed by many things.
func (g *generator) backsOff(found []successor) bool {
	if g.random == nil {
		return false
	}
	total := int32(0)
	for _, s := range found {
		total += s.count
	}
	kinds := float64(len(found))
	return g.random.Float64() < min(1, g.temperature)*kinds/(kinds+float64(total))
}

// repeats reports whether id would complete a run of repeatWindow tokens that
// was said before.
func (g *generator) repeats(id tokenID) bool {
	said := g.tokens[g.own:]
	const before = repeatWindow - 1
	if len(said) < before {
		return false
	}
	last := said[len(said)-before:]
	for i := before; i < len(said); i++ {
		if said[i] == id && slices.Equal(said[i-before:i], last) {
			return true
		}
	}
	return false
}
