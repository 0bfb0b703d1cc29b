package proxy

import (
	"encoding/json"
	"errors"
	"hash/maphash"
	"slices"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	maxFeedback = 4 << 10
	// maxRemembered bounds the answers that feedback can be about, in each of two
	// halves.
	maxRemembered = 1 << 15
)

// feedbackEvents are what editors tell of a completion: it was shown, accepted or
// rejected.
var feedbackEvents = []string{"shown", "accepted", "rejected"}

// feedback is what a client says of a completion that it got.
type feedback struct {
	RequestID string `json:"request_id"`
	Event     string `json:"event"`
	// Model and Variant are what the client asked for and what served it, the
	// header X-Ghostline-Variant. They are needed where another proxy of the
	// region may have served the request.
	Model   string `json:"model"`
	Variant string `json:"variant"`
}

// takeFeedback is the stage of a feedback request.
func (p *proxy) takeFeedback(x *exchange) error {
	if err := x.readBody(maxFeedback); err != nil {
		return err
	}
	f, err := parseFeedback(x.body)
	if err != nil {
		return err
	}
	return p.countFeedback(x, f)
}

// parseFeedback reads and checks a feedback's body.
func parseFeedback(body []byte) (*feedback, error) {
	f := new(feedback)
	if err := json.Unmarshal(body, f); err != nil {
		if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && wrong.Field != "" {
			return nil, badRequest("the field %q must be text", wrong.Field)
		}
		return nil, badRequest("the request's body must be one JSON object with request_id and event")
	}
	switch {
	case !isWord(f.RequestID):
		return nil, badRequest(`the field "request_id" must be the X-Request-Id of a completion`)
	case !slices.Contains(feedbackEvents, f.Event):
		return nil, badRequest(`the field "event" must be one of %s`, strings.Join(feedbackEvents, ", "))
	case (f.Model == "") != (f.Variant == ""):
		return nil, badRequest(`the fields "model" and "variant" go together: the model that was asked for, and the header X-Ghostline-Variant of its answer`)
	}
	return f, nil
}

// countFeedback counts what a client says of a completion for the variant that
// served it: each event of a request once.
func (p *proxy) countFeedback(x *exchange, f *feedback) error {
	var told feedbackCounts
	if m := x.snapshot.models[f.Model]; m != nil && x.claims.AllowsModel(m.Name) {
		if v := m.variant(f.Variant); v != nil {
			told = v.feedback
		}
	}
	if !p.served.take(p.served.key(x.claims.Subject, f.RequestID), slices.Index(feedbackEvents, f.Event), told) {
		return notFound("request_not_found", "this proxy knows no such completion of this user; another proxy may have served it, so send "+
			`the fields "model" and "variant" too: a model that this token allows, and the header X-Ghostline-Variant of the answer`)
	}
	return nil
}

// variant returns the model's variant of that name, or nil.
func (m *model) variant(name string) *variant {
	for _, v := range m.variants {
		if v.Name == name {
			return v
		}
	}
	return nil
}

// served remembers which variant served a request, for a while: until between one
// and two times maxRemembered others have been served.
type served struct {
	seed maphash.Seed

	mu              sync.Mutex
	recent, earlier map[uint64]servedBy
}

// servedBy is where the events of a request are counted, and which of them were.
type servedBy struct {
	counts feedbackCounts
	told   uint8 // bit i is that of feedbackEvents[i]
}

// feedbackCounts are a variant's, in the order of feedbackEvents. What remembers
// them must not hold the variant, which would hold its whole config.
type feedbackCounts []prometheus.Counter

func newServed() served {
	return served{seed: maphash.MakeSeed(), recent: map[uint64]servedBy{}, earlier: map[uint64]servedBy{}}
}

// key names a subject's request. A request of another subject cannot be named, not
// even by its id.
func (s *served) key(subject, id string) uint64 {
	return maphash.Comparable(s.seed, [2]string{subject, id})
}

func (s *served) remember(key uint64, counts feedbackCounts) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.add(key, servedBy{counts: counts})
}

func (s *served) add(key uint64, by servedBy) {
	if len(s.recent) == maxRemembered {
		s.earlier, s.recent = s.recent, s.earlier // a new one would have all requests wait for its memory
		clear(s.recent)
	}
	s.recent[key] = by
}

// take counts an event of a request, unless it was already. A request that is not
// known is counted where the client told, unless that is nil: then take is false.
func (s *served) take(key uint64, event int, told feedbackCounts) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	in := s.recent
	by, ok := in[key]
	if !ok {
		in = s.earlier
		by, ok = in[key]
	}
	if !ok {
		if told == nil {
			return false
		}
		by = servedBy{counts: told}
		s.add(key, by)
		in = s.recent
	}
	if by.told&(1<<event) == 0 {
		by.told |= 1 << event
		in[key] = by
		by.counts[event].Inc()
	}
	return true
}

func (m *metrics) feedbackOf(model, variant string) (counts feedbackCounts) {
	for _, event := range feedbackEvents {
		counts = append(counts, m.feedback.WithLabelValues(model, variant, event))
	}
	return counts
}
