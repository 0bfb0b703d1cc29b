package provider

import "github.com/ghostline-dev/ghostline/proxy/config"

// newDeepSeek speaks DeepSeek's POST /beta/completions: one answer to one prompt.
func newDeepSeek(u config.Unit) Dialect {
	c := newCompletions(u)
	c.can = capabilities{echo: true}
	c.drop = append([]string{"n", "best_of", "seed", "logit_bias", "user"}, copilotOnly...)
	return &c
}
