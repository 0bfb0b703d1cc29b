package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// TestCellsVaryOneFactor: a cell that differed in two would not say which matters.
func TestCellsVaryOneFactor(t *testing.T) {
	all := cells()
	if all[0] != base() {
		t.Errorf("the first cell is %+v; want the base", all[0])
	}
	seen := map[string]bool{}
	for _, c := range all[1:] {
		b := base()
		differs := 0
		for _, d := range []bool{c.tls != b.tls, c.events != b.events, c.promptBytes != b.promptBytes, c.connections != b.connections, c.cancels != b.cancels} {
			if d {
				differs++
			}
		}
		if differs != 1 || seen[c.name] {
			t.Errorf("%s differs from the base in %d factors; seen: %t", c.name, differs, seen[c.name])
		}
		seen[c.name] = true
	}
}

func TestRequest(t *testing.T) {
	for _, c := range cells() {
		req := c.request(completionsPath, modelServed)
		var body struct {
			Model, Prompt string
			MaxTokens     int `json:"max_tokens"`
			Stream        bool
		}
		if err := json.Unmarshal(req.Body, &body); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if body.Model != modelServed || len(body.Prompt) != c.promptBytes || body.MaxTokens != c.events || !body.Stream || req.Events != c.events+1 {
			t.Errorf("%s: %d bytes of prompt, %d tokens, %d events", c.name, len(body.Prompt), body.MaxTokens, req.Events)
		}
	}
}

// TestResetsStayBelowWhatNghttpxTakes: beyond 1,000 it ends the connection.
func TestResetsStayBelowWhatNghttpxTakes(t *testing.T) {
	const burst = 1000
	for _, c := range cells() {
		m := &measurement{cell: c}
		if most := m.most(); (most > 0) != (c.cancels > 0) || most/2/c.connections >= burst {
			t.Errorf("%s: %d requests in a sample", c.name, most)
		}
		for _, p := range []plan{fullPlan(), quickPlan()} {
			if c.timeCancels && 2*p.cancels/c.connections >= burst {
				t.Errorf("%s: %d timed cancels in each phase on %d connections", c.name, p.cancels, c.connections)
			}
		}
	}
}

func TestOptionsChooseCells(t *testing.T) {
	for _, test := range []struct {
		options options
		want    []string
		err     string
	}{
		{options{quick: true}, []string{"base", "TLS", "50 % cancels"}, ""},
		{options{run: "^base$|connections"}, []string{"base", "16 connections", "2000 connections"}, ""},
		{options{quick: true, run: "TLS"}, []string{"TLS"}, ""},
		{options{run: "nothing"}, nil, `-run: no cell matches "nothing"; there are: base, TLS, `},
		{options{run: "("}, nil, "-run: error parsing regexp"},
	} {
		p, err := test.options.plan()
		var got []string
		for _, c := range p.cells {
			got = append(got, c.name)
		}
		if !slices.Equal(got, test.want) || (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
			t.Errorf("%+v: %v, %v; want %v, %q", test.options, got, err, test.want, test.err)
		}
	}
}
