package main

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/ghostline-dev/ghostline/test/bench/load"
)

// inFlight is how many completions run at a time under a closed load, whatever the
// number of connections.
const inFlight = 64

// maxConnections is the most that a cell has.
const maxConnections = 2000

// cell is the work that the competitors are compared at.
type cell struct {
	name        string
	tls         bool // to the client
	events      int  // with text; one more ends the choice, and "[DONE]" the answer
	promptBytes int
	connections int // of clients
	cancels     int // percent of completions that are reset after their first event
	// timeCancels has the way of a cancel timed, where the factor can matter to it.
	timeCancels bool
}

// base is what the other cells differ from in one factor.
func base() cell {
	return cell{name: "base", events: 10, promptBytes: 4 << 10, connections: 4, timeCancels: true}
}

// cells are the base and, for each factor, what differs from it.
func cells() []cell {
	all := []cell{base()}
	vary := func(name string, change func(*cell)) {
		c := base()
		c.name = name
		change(&c)
		all = append(all, c)
	}
	vary("TLS", func(c *cell) { c.tls = true })
	vary("50 % cancels", func(c *cell) { c.cancels, c.timeCancels = 50, false })
	vary("1 event", func(c *cell) { c.events, c.timeCancels = 1, false })
	vary("50 events", func(c *cell) { c.events, c.timeCancels = 50, false })
	vary("1 KiB prompt", func(c *cell) { c.promptBytes = 1 << 10 })
	vary("64 KiB prompt", func(c *cell) { c.promptBytes = 64 << 10 })
	vary("16 connections", func(c *cell) { c.connections = 16 })
	vary("2000 connections", func(c *cell) { c.connections = maxConnections })
	return all
}

// quickCells are those that a quick run has: the base, and what differs most in
// what has to be done.
func quickCells() []cell { return cells()[:3] }

// matching are the cells whose names match.
func matching(all []cell, names *regexp.Regexp) ([]cell, error) {
	var some []cell
	var known []string
	for _, c := range all {
		known = append(known, c.name)
		if names.MatchString(c.name) {
			some = append(some, c)
		}
	}
	if len(some) == 0 {
		return nil, fmt.Errorf("no cell matches %q; there are: %s", names, strings.Join(known, ", "))
	}
	return some, nil
}

// request is the completion that the cell asks for, of a model by its name, with the
// headers of an editor's client. rig.clientHeader has those that differ from client
// to client.
func (c cell) request(path, model string) *load.Request {
	return &load.Request{
		Path: path,
		Header: []load.Field{
			{Name: "content-type", Value: "application/json"},
			{Name: "accept", Value: "text/event-stream"},
			{Name: "user-agent", Value: "ghostline-bench/1.0"},
			{Name: "editor-version", Value: "vscode/1.99.0"},
			{Name: "editor-plugin-version", Value: "copilot/1.300.0"},
			{Name: "openai-intent", Value: "copilot-ghost"},
		},
		IDHeader: "x-request-id",
		Body: fmt.Appendf(nil, `{"model":%q,"prompt":%q,"max_tokens":%d,"temperature":0,"stream":true}`,
			model, prompt(c.promptBytes), c.events),
		Events: c.events + 1,
	}
}

// prompt is text of a size that looks like code.
func prompt(size int) string {
	const line = "\tif err := run(ctx, options); err != nil { return err }\n"
	return strings.Repeat(line, size/len(line)+1)[:size]
}
