package proxy

import (
	"bytes"
	"encoding/json"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

func TestParseFeedback(t *testing.T) {
	for body, want := range map[string]feedback{
		`{"request_id":"r-1","event":"shown"}`:                                        {RequestID: "r-1", Event: "shown"},
		` {"event":"accepted","request_id":"r-1","later":{"a":[1]}}` + "\n":           {RequestID: "r-1", Event: "accepted"},
		`{"request_id":"r-1","event":"rejected","model":"m","variant":"v"}`:           {RequestID: "r-1", Event: "rejected", Model: "m", Variant: "v"},
		`{"request_id":"r-1","event":"shown","model":null,"variant":""}`:              {RequestID: "r-1", Event: "shown"},
		`{"request_id":"` + strings.Repeat("a", maxIdentifier) + `","event":"shown"}`: {RequestID: strings.Repeat("a", maxIdentifier), Event: "shown"},
	} {
		if got, err := parseFeedback([]byte(body)); err != nil || *got != want {
			t.Errorf("%s: %+v, error %v; want %+v", body, got, err, want)
		}
	}
}

func TestParseFeedbackRefuses(t *testing.T) {
	const object, id, event, both = "one JSON object with request_id and event", `"request_id" must be the X-Request-Id`,
		`"event" must be one of shown, accepted, rejected`, `"model" and "variant" go together`
	for body, want := range map[string]string{
		"":                                       object,
		"{":                                      object,
		"[]":                                     object,
		`"shown"`:                                object,
		"7":                                      object,
		"request_id=r-1":                         object,
		`{"request_id":"r-1","event":"shown"}{}`: object,
		`{"request_id":"r-1","event":"shown"}}`:  object,
		`{"request_id":"r-1","event":"shown"}]`:  object,
		`{"request_id":"r-1","event":"shown"},`:  object,
		"null":                                   id,
		"{}":                                     id,
		`{"event":"shown"}`:                      id,
		`{"request_id":"","event":"shown"}`:      id,
		`{"request_id":"a b","event":"shown"}`:   id,
		`{"request_id":"` + strings.Repeat("a", maxIdentifier+1) + `","event":"shown"}`: id,
		`{"request_id":7,"event":"shown"}`:                                              `the field "request_id" must be text`,
		`{"request_id":"r-1"}`:                                                          event,
		`{"request_id":"r-1","event":"SHOWN"}`:                                          event,
		`{"request_id":"r-1","event":"seen"}`:                                           event,
		`{"request_id":"r-1","event":["shown"]}`:                                        `the field "event" must be text`,
		`{"request_id":"r-1","event":"shown","model":"m"}`:                              both,
		`{"request_id":"r-1","event":"shown","variant":"v"}`:                            both,
		`{"request_id":"r-1","event":"shown","model":{}}`:                               `the field "model" must be text`,
		`{"request_id":"r-1","event":"shown","model":"m","variant":false}`:              `the field "variant" must be text`,
	} {
		_, err := parseFeedback([]byte(body))
		if e := asClientError(err); err == nil || e.status != 400 || !strings.Contains(e.message, want) {
			t.Errorf("%s: error %v, want a 400 with %q", body, err, want)
		}
	}
}

// FuzzParseFeedback holds that what is accepted is one JSON object that says what
// was taken from it, and that what is refused is the client's fault.
func FuzzParseFeedback(f *testing.F) {
	for _, seed := range []string{`{"request_id":"r-1","event":"shown"}`, `{"request_id":"r","event":"accepted","model":"m","variant":"v"}`, "null", "{}", "[]}"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		got, err := parseFeedback(body)
		if err != nil {
			if e := asClientError(err); e.status != 400 || e.message == "" {
				t.Errorf("refused with %+v", e)
			}
			return
		}
		if !json.Valid(body) || !bytes.HasPrefix(bytes.TrimLeft(body, " \t\r\n"), []byte("{")) {
			t.Errorf("accepted %q", body)
		}
		if !isWord(got.RequestID) || !slices.Contains(feedbackEvents, got.Event) || (got.Model == "") != (got.Variant == "") {
			t.Errorf("accepted %+v", got)
		}
		again, err := json.Marshal(got)
		if err != nil {
			t.Fatal(err)
		}
		if back, err := parseFeedback(again); err != nil || *back != *got {
			t.Errorf("%+v became %+v, error %v", got, back, err)
		}
	})
}

// eventCounts are a variant's counters, and what they have counted.
func eventCounts() (counts feedbackCounts, read func() []int) {
	for range feedbackEvents {
		counts = append(counts, prometheus.NewCounter(prometheus.CounterOpts{Name: "events"}))
	}
	return counts, func() (n []int) {
		for _, c := range counts {
			var m dto.Metric
			_ = c.Write(&m) // never an error of a counter
			n = append(n, int(m.GetCounter().GetValue()))
		}
		return n
	}
}

func TestEachEventCountsOnce(t *testing.T) {
	s := newServed()
	counts, read := eventCounts()
	mine, other := s.key("u-1", "r-1"), s.key("u-2", "r-1")
	s.remember(mine, counts)
	for range 3 {
		for _, event := range []int{0, 2} {
			if !s.take(mine, event, nil) {
				t.Fatal("the request is not known")
			}
		}
	}
	if s.take(other, 0, nil) || s.take(s.key("u-1", "r-2"), 0, nil) {
		t.Error("a request of another subject, or none at all, is known")
	}
	if got := read(); !slices.Equal(got, []int{1, 0, 1}) {
		t.Errorf("counted %v, want [1 0 1]", got)
	}
}

// TestToldOnceElsewhere: of a request that another proxy served each event counts
// once too, however many tell it at a time.
func TestToldOnceElsewhere(t *testing.T) {
	s := newServed()
	counts, read := eventCounts()
	for i := range 100 {
		key := s.key("u-1", strconv.Itoa(i))
		var telling sync.WaitGroup
		for range 8 {
			telling.Go(func() { s.take(key, i%3, counts) })
		}
		telling.Wait()
	}
	if got := read(); !slices.Equal(got, []int{34, 33, 33}) {
		t.Errorf("counted %v, want [34 33 33]", got)
	}
}

// TestServedIsBounded: at least so many answers are remembered, and at most twice
// as many.
func TestServedIsBounded(t *testing.T) {
	s := newServed()
	counts, _ := eventCounts()
	known := func(i int) bool { return s.take(s.key("u", strconv.Itoa(i)), 0, nil) }
	for i := range 5 * maxRemembered {
		s.remember(s.key("u", strconv.Itoa(i)), counts)
		if n := len(s.recent) + len(s.earlier); n > 2*maxRemembered {
			t.Fatalf("%d are remembered", n)
		}
		if i%1000 == 0 && !known(max(0, i-maxRemembered+1)) {
			t.Fatalf("after %d answers, the %dth last is forgotten", i+1, maxRemembered)
		}
	}
	if known(3*maxRemembered - 1) {
		t.Error("one is remembered after twice as many others")
	}
	last := 5*maxRemembered - 1
	if s.remember(s.key("u", "new"), counts); !known(last) {
		t.Error("the answer before the last is forgotten when the halves change")
	}
	if len(s.recent) != 1 {
		t.Errorf("%d in the new half, want 1: what is told must not move there", len(s.recent))
	}
}

// TestServedUsesItsMemoryAgain: all requests wait while the halves change.
func TestServedUsesItsMemoryAgain(t *testing.T) {
	s, key := newServed(), uint64(0)
	half := func() {
		for range maxRemembered {
			key += 0x9e3779b97f4a7c15 // spread as hashes are
			s.remember(key, nil)
		}
	}
	half()
	half()
	half()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	half()
	half()
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > 1<<20 {
		t.Errorf("%d bytes are allocated for what is remembered later", got)
	}
}
