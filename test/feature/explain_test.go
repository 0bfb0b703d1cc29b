package feature

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/ghostline-dev/ghostline/proxy"
	"github.com/ghostline-dev/ghostline/proxy/config"
)

// TestExplainTellsWhatArrives compares what is explained with what the unit gets.
func TestExplainTellsWhatArrives(t *testing.T) {
	s := start(t, setup{unit: http.HandlerFunc(theRequest), config: func(c *config.Config) {
		half := 50.0
		mutate(c, "bias", config.MutationMatch{}, bodyChange("Set", "logit_bias.50256", "-100"))
		mutate(c, "vim", config.MutationMatch{Clients: []config.ClientMatch{{Name: "copilot.vim", Versions: "<2"}}}, bodyChange("Max", "max_tokens", "3"))
		mutate(c, "half", config.MutationMatch{SubjectsPercent: &half}, bodyChange("Set", "half", "true"))
		mutate(c, "no", config.MutationMatch{}, bodyChange("Set", "y", "1"), bodyChange("Set", "y.x", "1"))
		c.Mutations = append(c.Mutations, config.Mutation{Name: "header", Headers: []config.HeaderChange{{Op: "Set", Name: "X-Team", Value: "a"}, {Op: "Remove", Name: "User-Agent"}}})
		c.Clients = []config.ClientRule{{Match: config.ClientMatch{Name: "copilot", Versions: "<1"}, Action: config.ActionUpgrade, Message: "Too old."}}
	}})
	cfg := s.config
	cfg.SetDefaults()
	for _, tc := range []struct {
		path, body, plugin string
		status             int
	}{
		{"/v1/completions", prompt, "copilot.vim/1.9", http.StatusOK},
		{"/v1/completions", `{"model":"copilot-codex", "prompt":"a" ,"suffix":"b","logit_bias":{"7":1},"nwo":"x"}`, "copilot.vim/2.0", http.StatusOK},
		{"/v1/engines/copilot-codex/completions", `{"prompt":"a","stream":true,"max_tokens":2,"extra":{"language":"go"}}`, "copilot/1.0", http.StatusOK},
		{"/v1/fim/completions", `{"model":"ghost-code","prompt":"a","random_seed":7}`, "", http.StatusOK},
		{"/v1/completions", `{"model":"nothing","prompt":"a"}`, "", http.StatusNotFound},
		{"/v1/completions", prompt, "copilot/0.9", 466},
	} {
		header := http.Header{"X-Request-Id": {"r-1"}, "Traceparent": {"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}, "Editor-Plugin-Version": {tc.plugin}}
		e, err := proxy.Explain(proxy.Question{Config: &cfg, Path: tc.path, Header: header, Body: []byte(tc.body), Subject: "subject-1"})
		if err != nil {
			t.Fatal(err)
		}
		req, before := s.request(t.Context(), s.plainURL, tc.path, tc.body), s.arrived.count()
		maps.Copy(req.Header, header)
		answer := s.do(s.h2c(), req)
		if answer.status != tc.status || (e.Refusal == nil) != (tc.status == http.StatusOK) {
			t.Fatalf("%s %s: answered %d, explained %+v; want %d", tc.path, tc.body, answer.status, e.Refusal, tc.status)
		}
		if e.Refusal != nil {
			if e.Refusal.Status != tc.status || !strings.Contains(answer.body, e.Refusal.Message) || s.arrived.count() != before {
				t.Errorf("%s: answered %s, explained %+v", tc.body, answer.body, e.Refusal)
			}
			continue
		}
		got := s.arrived.last(t)
		if string(e.Sent.Body) != got.body {
			t.Errorf("explained %s\narrived   %s", e.Sent.Body, got.body)
		}
		var explained, arrived []string
		for _, h := range e.Sent.Headers {
			explained = append(explained, h.Name+": "+strings.Replace(h.Value, "(the unit's credential)", unitKey, 1))
		}
		for name, values := range got.header {
			if name != "Content-Length" {
				arrived = append(arrived, name+": "+strings.Join(values, "; "))
			}
		}
		slices.Sort(explained)
		slices.Sort(arrived)
		if !slices.Equal(explained, arrived) {
			t.Errorf("explained %q\narrived   %q", explained, arrived)
		}
	}
	if got := s.metric("ghostline_mutations_total", "result", "applied"); got < 4 {
		t.Errorf("%v mutations were applied, want most", got)
	}
}
