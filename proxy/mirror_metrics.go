package proxy

import (
	"github.com/prometheus/client_golang/prometheus"
)

// The labels of a mirror: its model, the variant that it copies, and that which
// is asked too.
var mirrorLabels = []string{"model", "of", "variant"}

// mirrorVecs are the metrics of all mirrors.
type mirrorVecs struct {
	results   *prometheus.CounterVec   // mirrorLabels, result
	compared  *prometheus.CounterVec   // mirrorLabels, result
	agreement *prometheus.HistogramVec // mirrorLabels
	firstByte *prometheus.HistogramVec // mirrorLabels, side
	length    *prometheus.HistogramVec // mirrorLabels, side
	tokens    *prometheus.CounterVec   // mirrorLabels, kind
}

func newMirrorVecs() *mirrorVecs {
	with := func(label string) []string { return append(mirrorLabels[:len(mirrorLabels):len(mirrorLabels)], label) }
	return &mirrorVecs{
		results: counters("ghostline_mirror_total", "Mirrored requests by their result.", with("result")...),
		compared: counters("ghostline_mirror_compared_total", "Mirrored answers that were compared with the user's: equal, different, "+
			"or sampled (their temperature is not 0, so they need not be equal).", with("result")...),
		agreement: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "ghostline_mirror_agreement", Help: "For temperature 0: the part of the longer answer up to which the mirrored and the user's are the same, from 0 to 1.",
			Buckets: []float64{0, .1, .25, .5, .75, .9, .99, 1},
		}, mirrorLabels),
		firstByte: histograms("ghostline_mirror_first_byte_seconds",
			"Of the requests that were compared: from asking the unit to its first byte, on either side (primary, mirror).", with("side")...),
		length: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "ghostline_mirror_length_bytes", Help: "Of the requests that were compared: the bytes of text in the answer, on either side (primary, mirror).",
			Buckets: prometheus.ExponentialBuckets(1, 4, 9),
		}, with("side")),
		tokens: counters("ghostline_mirror_tokens_total", "Tokens of mirrored requests, as ghostline_tokens_total has those of users'.", with("kind")...),
	}
}

func (v *mirrorVecs) collectors() []prometheus.Collector {
	return []prometheus.Collector{v.results, v.compared, v.agreement, v.firstByte, v.length, v.tokens}
}

// forget removes the series of a mirror that is gone.
func (v *mirrorVecs) forget(m *mirror) {
	labels := prometheus.Labels{"model": m.of.model.Name, "of": m.Of, "variant": m.To}
	v.results.DeletePartialMatch(labels)
	v.compared.DeletePartialMatch(labels)
	v.agreement.DeletePartialMatch(labels)
	v.firstByte.DeletePartialMatch(labels)
	v.length.DeletePartialMatch(labels)
	v.tokens.DeletePartialMatch(labels)
}

// mirrorMetrics are one mirror's, found once.
type mirrorMetrics struct {
	results                              map[string]prometheus.Counter
	equal, different, sampled            prometheus.Counter
	agreement                            prometheus.Observer
	primaryFirstByte, mirroredFirstByte  prometheus.Observer
	primaryLength, mirroredLength        prometheus.Observer
	prompt, completion, unmeteredByUnits prometheus.Counter
}

func (v *mirrorVecs) of(model, of, variant string) mirrorMetrics {
	counter := func(vec *prometheus.CounterVec, value string) prometheus.Counter {
		return vec.WithLabelValues(model, of, variant, value)
	}
	m := mirrorMetrics{
		results: map[string]prometheus.Counter{},
		equal:   counter(v.compared, "equal"), different: counter(v.compared, "different"), sampled: counter(v.compared, "sampled"),
		agreement:        v.agreement.WithLabelValues(model, of, variant),
		primaryFirstByte: v.firstByte.WithLabelValues(model, of, variant, "primary"), mirroredFirstByte: v.firstByte.WithLabelValues(model, of, variant, "mirror"),
		primaryLength: v.length.WithLabelValues(model, of, variant, "primary"), mirroredLength: v.length.WithLabelValues(model, of, variant, "mirror"),
		prompt: counter(v.tokens, tokensPrompt), completion: counter(v.tokens, tokensCompletion), unmeteredByUnits: counter(v.tokens, tokensUnmetered),
	}
	for _, result := range append([]string{mirrorDropped, mirrorNoCapacity}, attemptResults...) {
		m.results[result] = counter(v.results, result)
	}
	return m
}

// count counts what a mirrored request cost.
func (m *mirrorMetrics) count(x *exchange) {
	if x.usage != nil {
		m.prompt.Add(float64(x.usage.PromptTokens))
		m.completion.Add(float64(x.usage.CompletionTokens))
		return
	}
	m.unmeteredByUnits.Add(float64(x.tokens))
}

// compare counts how two whole answers compare.
func (m *mirrorMetrics) compare(c *comparison) {
	a, b := c.primary, c.mirrored
	m.primaryFirstByte.Observe(a.firstByte)
	m.mirroredFirstByte.Observe(b.firstByte)
	if a.text.tooLong() || b.text.tooLong() {
		return
	}
	m.primaryLength.Observe(float64(a.text.size))
	m.mirroredLength.Observe(float64(b.text.size))
	if !a.exact || !b.exact { // else both should say the same
		m.sampled.Inc()
		return
	}
	same := agreement(a.text, b.text)
	m.agreement.Observe(same)
	if same == 1 {
		m.equal.Inc()
	} else {
		m.different.Inc()
	}
}
