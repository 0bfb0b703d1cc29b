package tokenissuer

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// noProvider is the provider of an exchange that no provider has answered.
const noProvider = "none"

// metrics has closed label sets: endpoint and result are constants of this
// package, provider is a name from the configuration or noProvider.
type metrics struct {
	exchanges *prometheus.CounterVec
	duration  *prometheus.HistogramVec
	providers *providerMetrics
}

func newMetrics(registry *prometheus.Registry) (*metrics, error) {
	m := &metrics{
		exchanges: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ghostline_issuer_exchanges_total",
			Help: "Exchanges of a credential for a token, by endpoint, identity provider and result.",
		}, []string{"endpoint", "provider", "result"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:                        "ghostline_issuer_exchange_duration_seconds",
			Help:                        "Time from an exchange's headers to its answer.",
			Buckets:                     []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
			NativeHistogramBucketFactor: 1.1,
		}, []string{"endpoint", "provider", "result"}),
		providers: newProviderMetrics(),
	}
	for _, c := range append(m.providers.collectors(), m.exchanges, m.duration) {
		if err := registry.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *metrics) observe(d decision, took time.Duration) {
	labels := []string{d.endpoint, d.provider, string(d.result())}
	m.exchanges.WithLabelValues(labels...).Inc()
	m.duration.WithLabelValues(labels...).Observe(took.Seconds())
}
