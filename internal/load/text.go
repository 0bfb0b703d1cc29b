package load

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"sort"
	"strings"
)

const (
	minPromptBytes = 1 << 10
	maxPromptBytes = 64 << 10
	// textBytes is the size of the text that all prompts are parts of: several
	// times the longest prompt, so that places differ.
	textBytes = 512 << 10
)

// text is source code that nobody wrote, in the form that it has in a JSON
// string. All users share it: a prompt is a part of it, and typing moves the
// part's end.
type text struct {
	escaped []byte
	at      []int32 // where each byte of the text begins in escaped
	lines   []int   // where each line of the text begins
}

func newText(seed uint64) *text {
	writer := &codeWriter{random: rand.New(rand.NewPCG(seed, textStream))}
	writer.names()
	for writer.out.Len() < textBytes {
		writer.function()
	}
	return escape(writer.out.Bytes())
}

// escape makes a text of ASCII source without backslashes.
func escape(source []byte) *text {
	t := &text{escaped: make([]byte, 0, len(source)*21/20), at: make([]int32, 0, len(source)+1), lines: []int{0}}
	for i, c := range source {
		t.at = append(t.at, int32(len(t.escaped)))
		switch c {
		case '\n':
			t.lines = append(t.lines, i+1)
			t.escaped = append(t.escaped, `\n`...)
		case '\t':
			t.escaped = append(t.escaped, `\t`...)
		case '"':
			t.escaped = append(t.escaped, `\"`...)
		default:
			t.escaped = append(t.escaped, c)
		}
	}
	t.at = append(t.at, int32(len(t.escaped)))
	return t
}

// size is the text's length in bytes, unescaped.
func (t *text) size() int { return len(t.at) - 1 }

// part is the escaped form of the bytes from start to before end. It is shared
// and must not be changed.
func (t *text) part(start, end int) []byte { return t.escaped[t.at[start]:t.at[end]] }

// lineAt is the start of the first line that begins at i or behind it.
func (t *text) lineAt(i int) int {
	line := sort.SearchInts(t.lines, i)
	if line == len(t.lines) {
		return t.size()
	}
	return t.lines[line]
}

// wordList is what identifiers are made of.
const wordList = `accept account apply batch block buffer build bytes cache call chunk client close
	code config connect count create cursor data decode delete depth device draw encode entry error event fetch
	field file filter find flush format frame get group handle header image index init input insert item join key
	layer length level limit line list load lock log make map mark match merge message method model move name next
	node notify number offset open order output owner page parse part path peer point pool print process push query
	queue range read record region remove render report request reset result retry route row run save scan score
	send server session set shape sign size sort source split stack start state status step store stream string
	sum table target task text time token total trace tree type unit update user value verify view wait weight
	window word worker write zone`

// codeWriter writes functions of made-up names in the style of Go.
type codeWriter struct {
	random    *rand.Rand
	out       bytes.Buffer
	words     []string
	functions []string
	variables []string
	types     []string
}

// names makes the vocabulary. Few names for much code: source repeats itself.
func (w *codeWriter) names() {
	w.words = strings.Fields(wordList)
	for range 200 {
		w.functions = append(w.functions, w.word()+w.capital()+w.capital())
		w.variables = append(w.variables, w.word(), w.word()+w.capital())
		w.types = append(w.types, w.capital()+w.capital())
	}
}

func (w *codeWriter) pick(from []string) string { return from[w.random.IntN(len(from))] }
func (w *codeWriter) word() string              { return w.pick(w.words) }

func (w *codeWriter) capital() string {
	word := w.word()
	return strings.ToUpper(word[:1]) + word[1:]
}

func (w *codeWriter) function() {
	name := w.pick(w.functions)
	fmt.Fprintf(&w.out, "// %s %ss the %s of a %s.\nfunc (%c *%s) %s(ctx context.Context, %s []%s) (*%s, error) {\n",
		name, w.word(), w.word(), w.word(), 'a'+rune(w.random.IntN(26)), w.pick(w.types), name,
		w.pick(w.variables), w.pick(w.types), w.pick(w.types))
	for range 2 + w.random.IntN(12) {
		w.statement(1)
	}
	w.out.WriteString("\treturn " + w.pick(w.variables) + ", nil\n}\n\n")
}

func (w *codeWriter) statement(depth int) {
	indent := strings.Repeat("\t", depth)
	a, b := w.pick(w.variables), w.pick(w.variables)
	w.out.WriteString(indent)
	switch w.random.IntN(6) {
	case 0:
		fmt.Fprintf(&w.out, "%s, err := %s(ctx, %s)\n%sif err != nil {\n%s\treturn nil, fmt.Errorf(\"%s %s: %%w\", err)\n%s}\n",
			a, w.pick(w.functions), b, indent, indent, w.word(), w.word(), indent)
	case 1:
		fmt.Fprintf(&w.out, "%s := %s[%d]\n", a, b, w.random.IntN(100))
	case 2:
		fmt.Fprintf(&w.out, "%s.%s = append(%s.%s, %s)\n", a, w.word(), a, w.word(), b)
	case 3:
		fmt.Fprintf(&w.out, "%s = %s(%s, %s)\n", a, w.pick(w.functions), b, w.pick(w.variables))
	case 4:
		fmt.Fprintf(&w.out, "// The %s of the %s is the %s.\n", w.word(), w.word(), w.word())
	default:
		if depth > 2 {
			fmt.Fprintf(&w.out, "%s++\n", a)
			return
		}
		fmt.Fprintf(&w.out, "for _, %s := range %s.%s {\n", w.word(), a, w.word())
		for range 1 + w.random.IntN(3) {
			w.statement(depth + 1)
		}
		w.out.WriteString(indent + "}\n")
	}
}
