package feature

import (
	"fmt"

	dto "github.com/prometheus/client_model/go"
)

// metric adds up the samples of a counter or gauge that have all of the labels,
// given as name, value, name, value.
func (s *stack) metric(name string, labels ...string) float64 {
	s.t.Helper()
	sum := 0.0
	for _, m := range s.series(name) {
		if hasLabels(m, labels) {
			sum += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return sum
}

// series are those of a metric.
func (s *stack) series(name string) []*dto.Metric {
	s.t.Helper()
	families, err := s.metrics.Gather()
	if err != nil {
		s.t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == name {
			return family.GetMetric()
		}
	}
	return nil
}

func hasLabels(m *dto.Metric, labels []string) bool {
	have := map[string]string{}
	for _, l := range m.GetLabel() {
		have[l.GetName()] = l.GetValue()
	}
	for i := 0; i < len(labels); i += 2 {
		if have[labels[i]] != labels[i+1] {
			return false
		}
	}
	return true
}

// outcomes checks how many requests had an outcome, once they are recorded.
func (s *stack) outcomes(outcome string, want float64) {
	s.t.Helper()
	s.eventually(fmt.Sprintf("%v requests with outcome %s", want, outcome), func() bool {
		return s.metric("ghostline_requests_total", "outcome", outcome) == want
	})
}
