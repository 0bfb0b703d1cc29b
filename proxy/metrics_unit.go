package proxy

import (
	"slices"
	"strings"
	"time"

	"github.com/ghostline-dev/ghostline/proxy/config"
	"github.com/prometheus/client_golang/prometheus"
)

// unitCollector reads the units and their pools.
type unitCollector struct{ p *proxy }

var (
	connectionsDesc = prometheus.NewDesc("ghostline_upstream_connections", "Connections to units now, by state: being opened (dialing), open, "+
		"or open for what runs on them alone, because the unit takes no more there (draining).", []string{"unit", "state"}, nil)

	openedDesc = prometheus.NewDesc("ghostline_upstream_connections_opened_total", "Connections that were opened to units.", []string{"unit"}, nil)

	stateDesc = prometheus.NewDesc("ghostline_unit_state", "1 for the state that a unit is in, 0 for the others.", []string{"unit", "state"}, nil)
)

func (c unitCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- connectionsDesc
	ch <- openedDesc
	ch <- stateDesc
}

func (c unitCollector) Collect(ch chan<- prometheus.Metric) {
	now := time.Now()
	for _, u := range c.p.loader.current.Load().units {
		current := u.state(now)
		for _, state := range unitStates {
			value := 0.0
			if state == current {
				value = 1
			}
			ch <- prometheus.MustNewConstMetric(stateDesc, prometheus.GaugeValue, value, u.Name, state)
		}
		if u.endpoint == nil {
			continue
		}
		stats := u.endpoint.pool.Stats()
		for state, count := range map[string]int{"dialing": stats.Dialing, "open": stats.Open - stats.Draining, "draining": stats.Draining} {
			ch <- prometheus.MustNewConstMetric(connectionsDesc, prometheus.GaugeValue, float64(count), u.Name, state)
		}
		ch <- prometheus.MustNewConstMetric(openedDesc, prometheus.CounterValue, float64(stats.Opened), u.Name)
	}
}

// unitMetrics are a unit's, found once. Those of a unit that is gone are counted
// on by its last requests, and yet do not come back.
type unitMetrics struct {
	requests          map[outcome]prometheus.Counter
	duration          prometheus.Observer // of its variant
	firstByte         prometheus.Observer
	firstByteMet      prometheus.Counter
	firstByteMissed   prometheus.Counter
	upstreamFirstByte prometheus.Observer
	providerGap       prometheus.Observer
	attempts, probes  map[string]prometheus.Counter // by result
}

// The results of an attempt.
const (
	attemptOK            = "ok"
	attemptCancelled     = "cancelled"
	attemptRefused       = "refused"       // 429, 503, or a stream refused: it did no work
	attemptUnreachable   = "unreachable"   // no connection
	attemptMisconfigured = "misconfigured" // 401, 403 or 404: its url or credential is wrong
	attemptInvalid       = "invalid"       // it found fault with the request
	attemptTimeout       = "timeout"       // before or after the first byte
	attemptError         = "error"         // before the first byte
	attemptBroken        = "broken"        // after the first byte
)

func (m *metrics) unit(u config.Unit, region, model, variant string) unitMetrics {
	out := unitMetrics{
		requests:          map[outcome]prometheus.Counter{},
		duration:          m.duration.WithLabelValues(model, variant),
		firstByte:         m.firstByte.WithLabelValues(model, variant, u.Name),
		firstByteMet:      m.firstByteIn.WithLabelValues(model, variant, u.Name, objectiveMet),
		firstByteMissed:   m.firstByteIn.WithLabelValues(model, variant, u.Name, objectiveMissed),
		upstreamFirstByte: m.upstreamFirstByte.WithLabelValues(model, variant, u.Name),
		providerGap:       m.providerGap.WithLabelValues(model, variant, u.Name),
		attempts:          map[string]prometheus.Counter{},
		probes:            map[string]prometheus.Counter{},
	}
	for _, o := range outcomes {
		out.requests[o] = m.requests.WithLabelValues(model, variant, region, u.Name, string(o))
	}
	for _, result := range attemptResults {
		out.attempts[result] = m.attempts.WithLabelValues(u.Name, result)
		out.probes[result] = m.probes.WithLabelValues(u.Name, result)
	}
	return out
}

var attemptResults = []string{attemptOK, attemptCancelled, attemptRefused, attemptUnreachable, attemptMisconfigured,
	attemptInvalid, attemptTimeout, attemptError, attemptBroken}

// resultOf is how an attempt that ended with err is counted.
func resultOf(err error) string {
	if err == nil {
		return attemptOK
	}
	e := asClientError(err)
	switch {
	case e == nil:
		return attemptCancelled
	case e.attempt != "":
		return e.attempt
	case e.outcome == outcomeTimeout:
		return attemptTimeout
	}
	return attemptError
}

// loaded names the config in use and its objectives, and forgets what is gone
// with the one before: an operator that makes units up as it goes must not fill
// the memory with their series. last is nil at the start.
func (m *metrics) loaded(last, next *snapshot) {
	m.current.Store(next)
	m.configInfo.Reset()
	m.configInfo.WithLabelValues(next.hash).Set(1)
	m.objective.Reset()
	for name, value := range next.config.Objectives.Values() {
		m.objective.WithLabelValues(name).Set(value)
	}
	for _, o := range outcomes { // of requests that never came as far as a model
		m.requests.WithLabelValues(noName, noName, next.config.Region, noName, string(o))
	}
	if last != nil {
		m.forgetModels(last, next)
		m.forgetUnits(last, next)
		m.forgetMutations(last, next)
		last.clientCounters.replace(next.clientCounters)
	}
}

// mutationOf are a mutation's counters, found once.
func (m *metrics) mutationOf(name string) map[mutationResult]prometheus.Counter {
	out := map[mutationResult]prometheus.Counter{}
	for _, result := range mutationResults {
		out[result] = m.mutations.WithLabelValues(name, string(result))
	}
	return out
}

// forgetMutations forgets the mutations that are gone or left out.
func (m *metrics) forgetMutations(last, next *snapshot) {
	for _, gone := range last.mutations {
		if !slices.ContainsFunc(next.mutations, func(stays *mutation) bool { return stays.name == gone.name && stays.problem == "" }) {
			m.mutations.DeletePartialMatch(prometheus.Labels{"mutation": gone.name})
		}
	}
}

// forgetModels forgets the models, variants and mirrors that are gone.
func (m *metrics) forgetModels(last, next *snapshot) {
	for _, v := range last.variants {
		gone := prometheus.Labels{"model": v.model.Name, "variant": v.Name}
		switch {
		case next.hasVariant(v.model.Name, v.Name):
			continue
		case !next.hasVariant(v.model.Name, noName):
			gone = prometheus.Labels{"model": v.model.Name}
		}
		m.requests.DeletePartialMatch(gone)
		m.duration.DeletePartialMatch(gone)
		m.feedback.DeletePartialMatch(gone)
	}
	for _, gone := range last.mirrors {
		if !slices.ContainsFunc(next.mirrors, func(stays *mirror) bool { return stays.name() == gone.name() }) {
			m.mirrors.forget(gone)
		}
	}
}

// hasVariant says whether there is a model and, unless it is noName, a variant of
// it. A request whose model is noName has come too early to name any.
func (s *snapshot) hasVariant(modelName, variantName string) bool {
	if modelName == noName {
		return true
	}
	m, ok := s.models[modelName]
	return ok && m.Name == modelName && (variantName == noName ||
		slices.ContainsFunc(m.variants, func(v *variant) bool { return v.Name == variantName }))
}

// forgetUnits forgets units that are gone, or what they served before.
func (m *metrics) forgetUnits(last, next *snapshot) {
	serves := map[string]string{}
	for _, u := range next.units {
		serves[u.Name] = u.Serves
	}
	for _, u := range last.units {
		now, stays := serves[u.Name]
		if now != u.Serves {
			m.forgetServing(u)
		}
		if !stays {
			unit := prometheus.Labels{"unit": u.Name}
			m.attempts.DeletePartialMatch(unit)
			m.probes.DeletePartialMatch(unit)
			m.spills.DeletePartialMatch(prometheus.Labels{"from": u.Name})
			m.spills.DeletePartialMatch(prometheus.Labels{"to": u.Name})
		}
	}
}

func (m *metrics) forgetServing(u *unit) {
	model, variant, _ := strings.Cut(u.Serves, "/")
	labels := prometheus.Labels{"unit": u.Name, "model": model, "variant": variant}
	m.requests.DeletePartialMatch(labels)
	m.firstByteIn.DeletePartialMatch(labels)
	for _, times := range []*prometheus.HistogramVec{m.firstByte, m.upstreamFirstByte, m.providerGap} {
		times.DeletePartialMatch(labels)
	}
}
