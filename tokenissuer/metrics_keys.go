package tokenissuer

import (
	"github.com/ghostline-dev/ghostline/tokenissuer/keys"
	"github.com/prometheus/client_golang/prometheus"
)

// keyMetrics tells of the keys as they are when somebody looks.
type keyMetrics struct {
	ring   func() *keys.Ring
	status func() keys.Status

	published, made, rotation, loaded, rotated, leads *prometheus.Desc
}

func newKeyMetrics(ring func() *keys.Ring, status func() keys.Status) *keyMetrics {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("ghostline_issuer_"+name, help, labels, nil)
	}
	return &keyMetrics{
		ring: ring, status: status,
		published: desc("keys", "Keys that are published."),
		made:      desc("key_created_timestamp_seconds", "When the newest key of a stage was made.", "stage"),
		rotation:  desc("keys_next_rotation_timestamp_seconds", "When the key that signs is to be followed by the next."),
		loaded:    desc("keys_last_load_successful", "1 if the key store was read and all in it is good, 0 if the last good keys are in use."),
		rotated:   desc("keys_last_rotation_successful", "0 if the last change that was due to the keys failed, else 1."),
		leads:     desc("keys_leader", "1 if it is this issuer that rotates the keys."),
	}
}

// Describe is prometheus.Collector's.
func (m *keyMetrics) Describe(out chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{m.published, m.made, m.rotation, m.loaded, m.rotated, m.leads} {
		out <- desc
	}
}

// Collect is prometheus.Collector's.
func (m *keyMetrics) Collect(out chan<- prometheus.Metric) {
	ring, status := m.ring(), m.status()
	gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	}
	truth := func(desc *prometheus.Desc, is bool) {
		gauge(desc, map[bool]float64{true: 1}[is])
	}
	gauge(m.published, float64(ring.Public.Len()))
	newest := map[keys.Stage]float64{}
	for _, key := range ring.Keys {
		newest[key.Stage] = max(newest[key.Stage], float64(key.Made.Unix()))
	}
	for stage, made := range newest {
		gauge(m.made, made, string(stage))
	}
	if newest[keys.Signing] != 0 {
		gauge(m.rotation, float64(ring.Rotation.Unix()))
	}
	truth(m.loaded, status.Loaded)
	truth(m.rotated, status.Rotated)
	truth(m.leads, status.Leads)
}
