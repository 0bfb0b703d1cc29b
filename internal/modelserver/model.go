package modelserver

import (
	"cmp"
	"slices"
)

// order is how many tokens the model looks at together: the one that it
// predicts and up to order-1 before it.
const order = 5

// tokenID numbers the tokens that a model knows.
type tokenID int32

const (
	unknown tokenID = iota - 1 // a token of a prompt that no training file has
	noToken                    // where a history is shorter than it could be
	fileStart
	fileEnd
	firstText
)

// history is the tokens before the one to predict, oldest first. A shorter one
// leaves the end empty, so that histories of all lengths share a table.
type history [order - 1]tokenID

// successor is a token that followed a history in training, and how often.
type successor struct {
	id    tokenID
	count int32
}

// model is an n-gram model of source text. It does not change once trained, so
// requests share it.
type model struct {
	ids   map[string]tokenID
	texts []string // by tokenID
	after map[history][]successor
	size  int // tokens trained on
}

// train makes a model of the files' contents. The same files in the same order
// make the same model.
func train(files []string) *model {
	m := &model{ids: map[string]tokenID{}, texts: make([]string, firstText), after: map[history][]successor{}}
	type gram struct {
		before history
		next   tokenID
	}
	counts := map[gram]int32{}
	for _, file := range files {
		text := m.encode(file)
		m.size += len(text)
		for i := 1; i < len(text); i++ {
			for n := range min(i, order-1) + 1 {
				counts[gram{lastOf(text[:i], n), text[i]}]++
			}
		}
	}
	for g, count := range counts {
		m.after[g.before] = append(m.after[g.before], successor{g.next, count})
	}
	for _, list := range m.after {
		slices.SortFunc(list, func(a, b successor) int {
			return cmp.Or(cmp.Compare(b.count, a.count), cmp.Compare(m.texts[a.id], m.texts[b.id]))
		})
	}
	return m
}

// encode turns a file into tokens, and learns those that are new.
func (m *model) encode(file string) []tokenID {
	text := []tokenID{fileStart}
	for len(file) > 0 {
		n := tokenLen(file)
		id, ok := m.ids[file[:n]]
		if !ok {
			id = tokenID(len(m.texts))
			m.ids[file[:n]] = id
			m.texts = append(m.texts, file[:n])
		}
		text = append(text, id)
		file = file[n:]
	}
	return append(text, fileEnd)
}

// lookup returns the token with this text, or unknown.
func (m *model) lookup(text string) tokenID {
	if id, ok := m.ids[text]; ok {
		return id
	}
	return unknown
}

// lastOf returns the last n tokens as a history; n is at most len(tokens).
func lastOf(tokens []tokenID, n int) (h history) {
	copy(h[:], tokens[len(tokens)-n:])
	return h
}
