package proxy

import (
	"errors"
	"strings"
	"time"

	"github.com/ghostline-dev/ghostline/proxy/auth"
	"github.com/ghostline-dev/ghostline/proxy/config"
	"github.com/prometheus/client_golang/prometheus"
)

// metrics are the proxy's own. Every label's values are a closed set: they come
// from the config or are listed here, never from a request.
type metrics struct {
	requests          *prometheus.CounterVec   // model, variant, region, unit, outcome
	duration          *prometheus.HistogramVec // model, variant
	firstByte         *prometheus.HistogramVec // model, variant, unit
	upstreamFirstByte *prometheus.HistogramVec // model, variant, unit
	cancelled         *prometheus.CounterVec   // phase
	cancelledAfter    *prometheus.HistogramVec // phase
	tokens            *prometheus.CounterVec   // kind
	attempts          *prometheus.CounterVec   // unit, result
	retries           *prometheus.CounterVec   // result
	auth              *prometheus.CounterVec   // result
	tokenCache        *prometheus.CounterVec   // result
	probes            *prometheus.CounterVec   // unit, result
	connectionsOpened prometheus.Counter
	connectionsCut    prometheus.Counter
	reloaded          prometheus.Gauge
	unknownFields     prometheus.Gauge
	configInfo        *prometheus.GaugeVec   // hash
	feedback          *prometheus.CounterVec // model, variant, event
	mirrors           *mirrorVecs
}

func newMetrics(registry *prometheus.Registry) (*metrics, error) {
	m := &metrics{
		requests: counters("ghostline_requests_total", "Completion requests by what became of them.",
			"model", "variant", "region", "unit", "outcome"),
		duration: histograms("ghostline_request_duration_seconds",
			"From a request's arrival to its outcome, cancelled ones left out.", "model", "variant"),
		firstByte: histograms("ghostline_first_byte_seconds",
			"From a request's arrival to the first byte of its answer: what users feel.", "model", "variant", "unit"),
		upstreamFirstByte: histograms("ghostline_upstream_first_byte_seconds",
			"From asking the unit to the first byte of its answer.", "model", "variant", "unit"),
		cancelled: counters("ghostline_cancelled_total", "Requests that the client cancelled, by how far they had come.", "phase"),
		cancelledAfter: histograms("ghostline_cancelled_after_seconds",
			"How long a cancelled request lived, by how far it had come.", "phase"),
		tokens: counters("ghostline_tokens_total", "Tokens as the provider metered them (prompt, completion), "+
			"and events of streams that ended before the provider said what they cost (unmetered).", "kind"),
		attempts: counters("ghostline_unit_attempts_total", "Requests sent to units by their result.", "unit", "result"),
		retries: counters("ghostline_retries_total", "Retries after which a unit may have worked in vain: allowed, "+
			"or denied because too many requests needed one.", "result"),
		auth: counters("ghostline_auth_total", "Requests by the result of checking their token.", "result"),
		tokenCache: counters("ghostline_token_cache_total",
			"Good tokens by whether they were remembered (hit) or verified (miss).", "result"),
		probes: counters("ghostline_unit_probes_total", "Completions that the proxy itself asked units for, by their result.", "unit", "result"),
		connectionsCut: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "ghostline_client_connections_cut_total", Help: "Connections that were cut because of resets of requests without a valid token."}),
		connectionsOpened: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "ghostline_client_connections_opened_total", Help: "Connections that clients opened."}),
		reloaded: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "ghostline_config_last_reload_successful", Help: "1 if the newest config is in use, 0 if it was refused or waits for its keys."}),
		unknownFields: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "ghostline_config_unknown_fields", Help: "Fields of the config in use that this proxy does not know and ignores."}),
		configInfo: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "ghostline_config_info", Help: "1 for the config in use."}, []string{"hash"}),
		feedback: counters("ghostline_feedback_total", "What clients told of completions, by the variant that served them: "+
			"shown, accepted, rejected.", "model", "variant", "event"),
		mirrors: newMirrorVecs(),
	}
	for _, p := range phases {
		m.cancelled.WithLabelValues(string(p))
	}
	for _, result := range []string{"allowed", "denied"} { // so that the first of a burst shows in a rate
		m.retries.WithLabelValues(result)
	}
	return m, register(registry, append(m.mirrors.collectors(), m.requests, m.duration, m.firstByte, m.upstreamFirstByte, m.cancelled, m.cancelledAfter, m.tokens,
		m.attempts, m.retries, m.auth, m.tokenCache, m.probes, m.connectionsOpened, m.connectionsCut, m.reloaded, m.unknownFields, m.configInfo, m.feedback)...)
}

func register(registry *prometheus.Registry, collectors ...prometheus.Collector) error {
	var errs []error
	for _, c := range collectors {
		errs = append(errs, registry.Register(c))
	}
	return errors.Join(errs...)
}

func counters(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

// histograms have classic buckets from 1 ms to 10 s, and native ones for those
// who scrape them.
func histograms(name, help string, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: name, Help: help,
		Buckets: []float64{.001, .0025, .005, .01, .025, .05, .075, .1, .15, .2, .3, .5, .75, 1, 2.5, 5, 10},

		NativeHistogramBucketFactor:     1.1,
		NativeHistogramMaxBucketNumber:  100,
		NativeHistogramMinResetDuration: time.Hour,
	}, labels)
}

// watch adds the metrics that are read when scraped.
func (p *proxy) watch(registry *prometheus.Registry) error {
	return register(registry,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "ghostline_inflight", Help: "Requests in the proxy now."},
			func() float64 { return float64(p.inFlight.Load()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "ghostline_client_connections", Help: "Connections of clients open now."},
			func() float64 { return float64(p.connections.Load()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "ghostline_ready_proxies", Help: "Proxies that share the capacity of this region's units."},
			func() float64 { return float64(p.peers.ready()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "ghostline_region_up", Help: "1 if this proxy votes for its region, else 0."},
			func() float64 {
				if p.vote.status().Vote == string(voteUp) {
					return 1
				}
				return 0
			}),
		unitCollector{p},
	)
}

// unitCollector reads the units and their pools.
type unitCollector struct{ p *proxy }

var (
	openDesc = prometheus.NewDesc("ghostline_upstream_connections", "Connections to units, by state.", []string{"unit", "state"}, nil)

	openedDesc = prometheus.NewDesc("ghostline_upstream_connections_opened_total", "Connections that were opened to units.", []string{"unit"}, nil)

	stateDesc = prometheus.NewDesc("ghostline_unit_state", "1 for the state that a unit is in, 0 for the others.", []string{"unit", "state"}, nil)
)

func (c unitCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- openDesc
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
		ch <- prometheus.MustNewConstMetric(openDesc, prometheus.GaugeValue, float64(stats.Open), u.Name, "open")
		ch <- prometheus.MustNewConstMetric(openedDesc, prometheus.CounterValue, float64(stats.Opened), u.Name)
	}
}

// unitMetrics are a unit's, found once. Those of a unit that is gone are counted
// on by its last requests, and yet do not come back.
type unitMetrics struct {
	requests                     map[outcome]prometheus.Counter
	firstByte, upstreamFirstByte prometheus.Observer
	attempts, probes             map[string]prometheus.Counter // by result
}

// The kinds of tokens.
const (
	tokensPrompt     = "prompt"
	tokensCompletion = "completion"
	tokensUnmetered  = "unmetered"
)

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
		firstByte:         m.firstByte.WithLabelValues(model, variant, u.Name),
		upstreamFirstByte: m.upstreamFirstByte.WithLabelValues(model, variant, u.Name),
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

// record counts a finished request.
func (m *metrics) record(x *exchange, result outcome, now time.Time) {
	model, variant := x.modelName(), x.variantName()
	if x.served != nil {
		x.served.metrics.requests[result].Inc()
	} else {
		m.requests.WithLabelValues(model, variant, x.snapshot.config.Region, noName, string(result)).Inc()
	}
	lived := now.Sub(x.start).Seconds()
	if result == outcomeCancelled {
		m.cancelled.WithLabelValues(string(x.phase)).Inc()
		m.cancelledAfter.WithLabelValues(string(x.phase)).Observe(lived)
	} else {
		m.duration.WithLabelValues(model, variant).Observe(lived)
	}
	if !x.firstByte.IsZero() {
		x.served.metrics.firstByte.Observe(x.firstByte.Sub(x.start).Seconds())
		x.served.metrics.upstreamFirstByte.Observe(x.firstByte.Sub(x.asked).Seconds())
	}
	switch {
	case x.usage != nil:
		m.tokens.WithLabelValues(tokensPrompt).Add(float64(x.usage.PromptTokens))
		m.tokens.WithLabelValues(tokensCompletion).Add(float64(x.usage.CompletionTokens))
	case x.tokens > 0:
		m.tokens.WithLabelValues(tokensUnmetered).Add(float64(x.tokens))
	}
}

// authenticated counts the result of checking a request's token.
func (m *metrics) authenticated(cached bool, err error) {
	result := "invalid"
	switch {
	case err == nil:
		result = "ok"
		cache := "miss"
		if cached {
			cache = "hit"
		}
		m.tokenCache.WithLabelValues(cache).Inc()
	case errors.Is(err, auth.ErrExpired):
		result = "expired"
	case errors.Is(err, auth.ErrNoToken):
		result = "missing"
	}
	m.auth.WithLabelValues(result).Inc()
}

// retried counts a request that asked for a retry.
func (m *metrics) retried(allowed bool) {
	result := "denied"
	if allowed {
		result = "allowed"
	}
	m.retries.WithLabelValues(result).Inc()
}

func (m *metrics) reload(ok bool) {
	if ok {
		m.reloaded.Set(1)
		return
	}
	m.reloaded.Set(0)
}

// loaded names the config in use, and forgets units that are gone, or what they
// served before: an operator that makes units up as it goes must not fill the
// memory with their series. last is nil at the start.
func (m *metrics) loaded(last, next *snapshot) {
	m.configInfo.Reset()
	m.configInfo.WithLabelValues(next.hash).Set(1)
	if last == nil {
		return
	}
	m.forgetVariants(last, next)
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
			m.attempts.DeletePartialMatch(prometheus.Labels{"unit": u.Name})
			m.probes.DeletePartialMatch(prometheus.Labels{"unit": u.Name})
		}
	}
}

// forgetVariants removes the series of variants and mirrors that are gone.
func (m *metrics) forgetVariants(last, next *snapshot) {
	stays := map[string]bool{}
	for _, v := range next.variants {
		stays[v.model.Name+"/"+v.Name] = true
	}
	for _, mirror := range next.mirrors {
		stays[mirror.name()] = true
	}
	for _, v := range last.variants {
		if !stays[v.model.Name+"/"+v.Name] {
			m.feedback.DeletePartialMatch(prometheus.Labels{"model": v.model.Name, "variant": v.Name})
		}
	}
	for _, mirror := range last.mirrors {
		if !stays[mirror.name()] {
			m.mirrors.forget(mirror)
		}
	}
}

func (m *metrics) forgetServing(u *unit) {
	model, variant, _ := strings.Cut(u.Serves, "/")
	labels := prometheus.Labels{"unit": u.Name, "model": model, "variant": variant}
	m.requests.DeletePartialMatch(labels)
	m.firstByte.DeletePartialMatch(labels)
	m.upstreamFirstByte.DeletePartialMatch(labels)
}
