package proxy

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/ghostline-dev/ghostline/proxy/auth"
	"github.com/prometheus/client_golang/prometheus"
)

// metrics are the proxy's own. Every label's values are a closed set: they come
// from the config or are listed here, never from a request.
type metrics struct {
	requests          *prometheus.CounterVec   // model, variant, region, unit, outcome
	duration          *prometheus.HistogramVec // model, variant
	firstByte         *prometheus.HistogramVec // model, variant, unit
	firstByteIn       *prometheus.CounterVec   // model, variant, unit, result
	upstreamFirstByte *prometheus.HistogramVec // model, variant, unit
	providerGap       *prometheus.HistogramVec // model, variant, unit
	overhead          prometheus.Histogram
	cancelled         *prometheus.CounterVec   // phase
	cancelledAfter    *prometheus.HistogramVec // phase
	cancelPropagation *prometheus.HistogramVec // phase
	tokens            *prometheus.CounterVec   // kind
	attempts          *prometheus.CounterVec   // unit, result
	spills            *prometheus.CounterVec   // from, to, reason
	retries           *prometheus.CounterVec   // result
	clients           *prometheus.CounterVec   // client, version_major, action
	auth              *prometheus.CounterVec   // result
	tokenCache        *prometheus.CounterVec   // result
	probes            *prometheus.CounterVec   // unit, result
	connectionsOpened prometheus.Counter
	connectionsCut    prometheus.Counter
	accessDropped     prometheus.Counter
	reloaded          prometheus.Gauge
	keysFresh         prometheus.Gauge
	unknownFields     prometheus.Gauge
	configInfo        *prometheus.GaugeVec   // hash
	objective         *prometheus.GaugeVec   // name
	feedback          *prometheus.CounterVec // model, variant, event
	mutations         *prometheus.CounterVec // mutation, result
	mirrors           *mirrorVecs

	current atomic.Pointer[snapshot] // the last that loaded was told of
}

func newMetrics(registry *prometheus.Registry) (*metrics, error) {
	m := &metrics{
		requests: counters("ghostline_requests_total", "Completion requests by what became of them.",
			"model", "variant", "region", "unit", "outcome"),
		duration: histograms("ghostline_request_duration_seconds",
			"From a request's arrival to its outcome, cancelled and superseded ones left out.", "model", "variant"),
		firstByte: histograms("ghostline_first_byte_seconds",
			"From a request's arrival to the first byte of its answer: what users feel.", "model", "variant", "unit"),
		firstByteIn: counters("ghostline_first_byte_objective_total", "Answers by whether their first byte came within the objective's time: "+
			"met or missed. None are counted while the config has no such objective.", "model", "variant", "unit", "result"),
		upstreamFirstByte: histograms("ghostline_upstream_first_byte_seconds",
			"From asking the unit to the first byte of its answer.", "model", "variant", "unit"),
		providerGap: histograms("ghostline_provider_gap_seconds", "From asking the unit to the first byte of its answer, less the time "+
			"that the provider says it worked. Only answers whose provider says so; a gap below 0 counts as 0.", "model", "variant", "unit"),
		overhead: prometheus.NewHistogram(histogramOpts("ghostline_proxy_overhead_seconds", "What the proxy adds before the first byte leaves: "+
			"from a request's arrival to asking the first unit, less the wait for the request's body, and from the first byte of the answer "+
			"to its being written to the client. Only requests whose first byte was written.", shortBuckets)),
		cancelled: counters("ghostline_cancelled_total", "Requests that the client cancelled, by how far they had come.", "phase"),
		cancelledAfter: histograms("ghostline_cancelled_after_seconds",
			"How long a cancelled request lived, by how far it had come.", "phase"),
		cancelPropagation: prometheus.NewHistogramVec(histogramOpts("ghostline_cancel_propagation_seconds", "From the client's cancel, as the proxy "+
			"notices it, to the moment at which the connection to the unit has taken it over, which writes the reset.", shortBuckets), []string{"phase"}),
		tokens: counters("ghostline_tokens_total", "Tokens as the provider metered them (prompt, completion), "+
			"and events of streams that ended before the provider said what they cost (unmetered).", "kind"),
		attempts: counters("ghostline_unit_attempts_total", "Requests sent to units by their result.", "unit", "result"),
		spills: counters("ghostline_spill_total", "Requests that came to a unit (to) although others are preferred to it: the first of those "+
			"(from), and why that was passed over. Each request counts once, for the last unit that was asked.", "from", "to", "reason"),
		retries: counters("ghostline_retries_total", "Retries after which a unit may have worked in vain: allowed, "+
			"or denied because too many requests needed one.", "result"),
		clients: counters("ghostline_client_requests_total", "Requests with a good token by the program that sent them, "+
			"the first number of its version, and what was done about it. A dry run of a rule counts beside that.", "client", "version_major", "action"),
		auth: counters("ghostline_auth_total", "Requests by the result of checking their token.", "result"),
		tokenCache: counters("ghostline_token_cache_total",
			"Good tokens by whether they were remembered (hit) or verified (miss).", "result"),
		probes: counters("ghostline_unit_probes_total", "Completions that the proxy itself asked units for, by their result.", "unit", "result"),
		connectionsCut: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "ghostline_client_connections_cut_total", Help: "Connections that were cut because of resets of requests without a valid token."}),
		connectionsOpened: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "ghostline_client_connections_opened_total", Help: "Connections that clients opened."}),
		accessDropped: prometheus.NewCounter(prometheus.CounterOpts{Name: "ghostline_access_log_dropped_total",
			Help: "Lines of the access log that were dropped because they were not taken fast enough, or could not be written."}),
		reloaded: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "ghostline_config_last_reload_successful", Help: "1 if the newest config is in use, 0 if it was refused or waits for its keys."}),
		keysFresh: prometheus.NewGauge(prometheus.GaugeOpts{Name: "ghostline_keys_last_fetch_timestamp_seconds",
			Help: "When a key set was last fetched from its url, or found to be as it was; 0 if none was."}),
		unknownFields: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "ghostline_config_unknown_fields", Help: "Fields of the config in use that this proxy does not know and ignores."}),
		configInfo: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "ghostline_config_info", Help: "1 for the config in use."}, []string{"hash"}),
		objective: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "ghostline_objective", Help: "The objectives of the config in use, so that alerts know them."}, []string{"name"}),
	}
	m.feedback = counters("ghostline_feedback_total", "What clients told of completions, by the variant that served them: "+
		"shown, accepted, rejected.", "model", "variant", "event")
	m.mutations = counters("ghostline_mutations_total", "Requests that a mutation is for by what it did: applied, unchanged (they were already "+
		"as it would have them) or not_applicable (they were left as they were).", "mutation", "result")
	m.mirrors = newMirrorVecs()
	m.preset()
	return m, register(registry, append(m.mirrors.collectors(), m.requests, m.duration, m.firstByte, m.firstByteIn, m.upstreamFirstByte, m.providerGap, m.overhead, m.cancelled,
		m.cancelledAfter, m.cancelPropagation, m.tokens, m.attempts, m.spills, m.retries, m.clients, m.auth, m.tokenCache, m.probes,
		m.connectionsOpened, m.connectionsCut, m.accessDropped, m.reloaded, m.keysFresh, m.unknownFields, m.configInfo, m.objective, m.feedback, m.mutations)...)
}

// preset makes the series of small sets of labels, so that the first of a burst
// shows in a rate.
func (m *metrics) preset() {
	for _, p := range phases {
		m.cancelled.WithLabelValues(string(p))
		m.cancelledAfter.WithLabelValues(string(p))
		if p != phaseReceive { // no unit has to be told
			m.cancelPropagation.WithLabelValues(string(p))
		}
	}
	for vec, results := range map[*prometheus.CounterVec][]string{
		m.retries:    {"allowed", "denied"},
		m.tokens:     {tokensPrompt, tokensCompletion, tokensUnmetered},
		m.auth:       {authOK, authMissing, authInvalid, authExpired},
		m.tokenCache: {"hit", "miss"},
	} {
		for _, result := range results {
			vec.WithLabelValues(result)
		}
	}
	m.clients.WithLabelValues(otherLabel, otherLabel, actionAllow)
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

// Classic buckets, in seconds: of what a user waits for, and of what the proxy
// does by itself, which is mostly over in less than the first of those.
var (
	buckets      = []float64{.001, .0025, .005, .01, .025, .05, .075, .1, .15, .2, .3, .5, .75, 1, 2.5, 5, 10}
	shortBuckets = []float64{.00005, .0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, 1}
)

func histograms(name, help string, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(histogramOpts(name, help, buckets), labels)
}

// histogramOpts are those of a histogram with classic buckets, and native ones
// for those who scrape them.
func histogramOpts(name, help string, buckets []float64) prometheus.HistogramOpts {
	return prometheus.HistogramOpts{
		Name: name, Help: help, Buckets: buckets,

		NativeHistogramBucketFactor:     1.1,
		NativeHistogramMaxBucketNumber:  100,
		NativeHistogramMinResetDuration: time.Hour,
	}
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

// record counts a finished request.
func (m *metrics) record(x *exchange, result outcome, now time.Time) {
	lived := now.Sub(x.start).Seconds()
	duration := prometheus.Observer(nil)
	if x.served != nil {
		x.served.metrics.requests[result].Inc()
		duration = x.served.metrics.duration
	} else {
		model, variant := m.namesOf(x)
		m.requests.WithLabelValues(model, variant, x.snapshot.config.Region, noName, string(result)).Inc()
		duration = m.duration.WithLabelValues(model, variant)
	}
	switch result {
	case outcomeCancelled:
		m.recordCancel(x, lived)
	case outcomeSuperseded: // its time says as little of answers as a cancel's
	default:
		duration.Observe(lived)
	}
	if !x.firstByte.IsZero() {
		m.recordFirstByte(x)
	}
	if x.spill.from != nil {
		m.recordSpill(x)
	}
	switch {
	case x.usage != nil:
		m.tokens.WithLabelValues(tokensPrompt).Add(float64(x.usage.PromptTokens))
		m.tokens.WithLabelValues(tokensCompletion).Add(float64(x.usage.CompletionTokens))
	case x.tokens > 0:
		m.tokens.WithLabelValues(tokensUnmetered).Add(float64(x.tokens))
	}
}

func (m *metrics) recordCancel(x *exchange, lived float64) {
	phase := string(x.phase)
	m.cancelled.WithLabelValues(phase).Inc()
	m.cancelledAfter.WithLabelValues(phase).Observe(lived)
	if x.phase != phaseReceive && !x.told.IsZero() {
		m.cancelPropagation.WithLabelValues(phase).Observe(x.cancelTook().Seconds())
	}
}

func (m *metrics) recordFirstByte(x *exchange) {
	of, felt, waited := &x.served.metrics, x.firstByte.Sub(x.start), x.firstByte.Sub(x.asked)
	of.firstByte.Observe(felt.Seconds())
	// Counted here and not read from the histogram: an objective need not be one of
	// the buckets, and alerts are to work however histograms are scraped.
	if objective := x.snapshot.config.Objectives.FirstByte; objective != nil {
		if felt <= time.Duration(objective.Under) {
			of.firstByteMet.Inc()
		} else {
			of.firstByteMissed.Inc()
		}
	}
	of.upstreamFirstByte.Observe(waited.Seconds())
	if x.reported {
		of.providerGap.Observe(max(0, waited-x.worked).Seconds())
	}
	if !x.written.IsZero() {
		m.overhead.Observe(x.overhead().Seconds())
	}
}

// namesOf are the model and the variant of a request that was given no unit, as
// far as they are not gone since it came: their series are to stay away.
func (m *metrics) namesOf(x *exchange) (model, variant string) {
	model, variant = x.modelName(), x.variantName()
	if current := m.current.Load(); current != nil && current != x.snapshot && !current.hasVariant(model, variant) {
		return noName, noName
	}
	return model, variant
}

// The values of the label kind of ghostline_tokens_total.
const (
	tokensPrompt     = "prompt"
	tokensCompletion = "completion"
	tokensUnmetered  = "unmetered"
)

// The values of the label result of ghostline_first_byte_objective_total.
const (
	objectiveMet    = "met"
	objectiveMissed = "missed"
)

// The values of the label result of ghostline_auth_total.
const (
	authOK      = "ok"
	authMissing = "missing"
	authInvalid = "invalid"
	authExpired = "expired"
)

// authenticated counts the result of checking a request's token.
func (m *metrics) authenticated(cached bool, err error) {
	result := authInvalid
	switch {
	case err == nil:
		result = authOK
		cache := "miss"
		if cached {
			cache = "hit"
		}
		m.tokenCache.WithLabelValues(cache).Inc()
	case errors.Is(err, auth.ErrExpired):
		result = authExpired
	case errors.Is(err, auth.ErrNoToken):
		result = authMissing
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
