package provider

import "github.com/ghostline-dev/ghostline/proxy/config"

// newOpenAI speaks POST /v1/completions as OpenAI and many model servers do.
func newOpenAI(u config.Unit) Dialect {
	c := newCompletions(u)
	c.drop = copilotOnly
	return &c
}
