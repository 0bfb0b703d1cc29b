// Package modelserver stands in for a GPU: an HTTP server that speaks OpenAI's
// completions form and behaves, in everything that a proxy in front of it can
// notice, like an inference engine.
//
// What it says comes from an n-gram model that it trains at start on source
// files, so that it suggests plausible code for any prompt. When it says it
// follows an engine: a request waits for a slot, then works for a set time
// before its first token and between tokens, and while it works it looks only
// now and then whether its client is still there. So a cancel that arrives
// early saves time, the slot serves somebody else, and the saving shows as
// throughput as well as in the counters. What goes wrong is asked for by a fault
// (see [Server.SetFault]).
//
// It is a real server: over TLS it speaks h2 and HTTP/1.1, in clear text h2c and
// HTTP/1.1, and tests ask its counters, not the proxy's, whether a cancel
// arrived.
//
// It is not a language model, and no server for the open internet: it checks no
// credentials, and it waits for as long as a client takes to send its request.
package modelserver
