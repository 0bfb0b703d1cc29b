package controllers

import (
	"sync"
	"time"

	"github.com/ghostline-dev/ghostline/api/v1alpha1"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Metrics are the operator's own, beside those of controller-runtime.
type Metrics struct {
	condition  *prometheus.GaugeVec
	programmed prometheus.Histogram

	mu sync.Mutex
	// since is when a region's config was first seen, until it is programmed.
	since map[rolloutKey]time.Time
}

// rolloutKey is one config of one region.
type rolloutKey struct {
	route        types.NamespacedName
	region, hash string
}

// NewMetrics makes the operator's metrics and registers them.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	m := &Metrics{
		condition: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "ghostline_operator_route_condition",
			Help: "1 if the condition of a CompletionRoute is True, 0 if it is not.",
		}, []string{"namespace", "name", "condition"}),
		programmed: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "ghostline_operator_programmed_seconds",
			Help:    "Time from seeing a region's new config to all of its ready proxies using it.",
			Buckets: []float64{0.5, 1, 2, 5, 10, 20, 30, 60, 90, 120, 300, 600},
		}),
		since: map[rolloutKey]time.Time{},
	}
	registry.MustRegister(m.condition, m.programmed)
	return m
}

// observe counts what a pass found.
func (m *Metrics) observe(p *pass) {
	route := client.ObjectKeyFromObject(p.route)
	for _, condition := range p.route.Status.Conditions {
		value := 0.0
		if condition.Status == metav1.ConditionTrue {
			value = 1
		}
		m.condition.WithLabelValues(route.Namespace, route.Name, condition.Type).Set(value)
	}
	for _, g := range p.regions {
		if g.compiled.Config != nil && g.failure == nil {
			m.rollOut(rolloutKey{route, g.name(), g.compiled.Hash}, g.programmed(), string(g.live.lastData) == string(g.compiled.Data))
		}
	}
}

// rollOut measures one config's way. One that was the last good one already, as it is
// after a start of the operator, is on no way.
func (m *Metrics) rollOut(key rolloutKey, programmed, before bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for other := range m.since {
		if other.route == key.route && other.region == key.region && other.hash != key.hash {
			delete(m.since, other)
		}
	}
	since, ok := m.since[key]
	switch {
	case ok && programmed:
		m.programmed.Observe(time.Since(since).Seconds())
		delete(m.since, key)
	case !ok && !programmed && !before:
		m.since[key] = time.Now()
	}
}

// forget drops a route that is gone.
func (m *Metrics) forget(route types.NamespacedName) {
	for _, condition := range []string{
		v1alpha1.ConditionAccepted, v1alpha1.ConditionResolvedRefs, v1alpha1.ConditionProgrammed, v1alpha1.ConditionReady,
	} {
		m.condition.DeleteLabelValues(route.Namespace, route.Name, condition)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for key := range m.since {
		if key.route == route {
			delete(m.since, key)
		}
	}
}
