package proxy

import (
	"context"
	"sync"

	"github.com/tidwall/gjson"
)

// maxTranscript bounds what is kept of an answer to compare it, in bytes. Longer
// ones are not compared.
const maxTranscript = 64 << 10

// transcript is the text of an answer, by choice. Nothing of it is ever logged.
type transcript struct {
	choices [][]byte
	size    int
}

// add takes the text of an event in OpenAI's form.
func (t *transcript) add(data []byte) {
	if t.tooLong() {
		return
	}
	gjson.GetBytes(data, "choices").ForEach(func(_, choice gjson.Result) bool {
		index, text := min(choice.Get("index").Uint(), maxAnswers-1), choice.Get("text").Str
		if t.size += len(text); t.tooLong() {
			t.choices = nil
			return false
		}
		for uint64(len(t.choices)) <= index {
			t.choices = append(t.choices, nil)
		}
		t.choices[index] = append(t.choices[index], text...)
		return true
	})
}

func (t *transcript) tooLong() bool { return t.size > maxTranscript }

// agreement is how much of two answers is the same from their beginnings: 1 if
// they are equal, 0 if they differ from the first byte on.
func agreement(a, b *transcript) float64 {
	common, longest := 0, 0
	for i := range max(len(a.choices), len(b.choices)) {
		x, y := a.choice(i), b.choice(i)
		longest += max(len(x), len(y))
		for j := range min(len(x), len(y)) {
			if x[j] != y[j] {
				break
			}
			common++
		}
	}
	if longest == 0 {
		return 1
	}
	return float64(common) / float64(longest)
}

func (t *transcript) choice(i int) []byte {
	if i >= len(t.choices) {
		return nil
	}
	return t.choices[i]
}

// comparison is a request and its mirrored copy. It is made once both answers are
// whole; what ends otherwise is not compared.
type comparison struct {
	mirror *mirror
	cancel context.CancelFunc // of the copy

	mu                sync.Mutex
	primary, mirrored side
}

// side is one of the two answers.
type side struct {
	whole     bool
	exact     bool    // temperature 0
	firstByte float64 // seconds from asking the unit
	text      *transcript
}

// over takes a side's whole answer.
func (c *comparison) over(s *side, x *exchange) {
	c.mu.Lock()
	defer c.mu.Unlock()
	*s = side{whole: true, exact: x.ask.exact, firstByte: x.firstByte.Sub(x.asked).Seconds(), text: x.transcript}
	if c.primary.whole && c.mirrored.whole {
		c.mirror.metrics.compare(c)
	}
}
