package tokenissuer

import (
	"time"

	"github.com/ghostline-dev/ghostline/tokenissuer/identity"
	"github.com/prometheus/client_golang/prometheus"
)

// providerMetrics are of identity providers that are asked over the network. The label
// provider is a name from the configuration, result a constant of package identity.
type providerMetrics struct {
	cache   *prometheus.CounterVec
	lookups *prometheus.HistogramVec
	up      *prometheus.GaugeVec
	quota   *prometheus.GaugeVec
}

func newProviderMetrics() *providerMetrics {
	return &providerMetrics{
		cache: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ghostline_issuer_identity_cache_total",
			Help: "Answers about credentials, by identity provider and how the cache came by them.",
		}, []string{"provider", "result"}),
		lookups: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:                        "ghostline_issuer_provider_lookup_duration_seconds",
			Help:                        "Time of lookups at an identity provider, by result.",
			Buckets:                     []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
			NativeHistogramBucketFactor: 1.1,
		}, []string{"provider", "result"}),
		up: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "ghostline_issuer_provider_up",
			Help: "Whether an identity provider answers: 0 while it is held to be out.",
		}, []string{"provider"}),
		quota: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "ghostline_issuer_provider_quota_remaining",
			Help: "How many more lookups an identity provider allows until its quota is renewed.",
		}, []string{"provider"}),
	}
}

func (m *providerMetrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.cache, m.lookups, m.up, m.quota}
}

func (m *providerMetrics) quotaOf(provider string) func(remaining int) {
	gauge := m.quota.MustCurryWith(prometheus.Labels{"provider": provider})
	return func(remaining int) { gauge.WithLabelValues().Set(float64(remaining)) }
}

// providerObserver is the identity.Observer of one provider.
type providerObserver struct {
	metrics  *providerMetrics
	provider string
}

func (m *providerMetrics) of(provider string) identity.Observer {
	return providerObserver{metrics: m, provider: provider}
}

func (o providerObserver) Answered(result identity.CacheResult) {
	o.metrics.cache.WithLabelValues(o.provider, string(result)).Inc()
}

func (o providerObserver) Asked(result identity.LookupResult, took time.Duration) {
	o.metrics.lookups.WithLabelValues(o.provider, string(result)).Observe(took.Seconds())
}

func (o providerObserver) Up(up bool) {
	value := 0.0
	if up {
		value = 1
	}
	o.metrics.up.WithLabelValues(o.provider).Set(value)
}
