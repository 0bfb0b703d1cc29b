package provider

import "github.com/ghostline-dev/ghostline/proxy/config"

// newVLLM speaks vLLM's completions, which are OpenAI's but for the suffix: any that
// is not null is refused, so it goes into the prompt. Fields that vLLM does not know
// it ignores, so Copilot's stay, and min_tokens is one of its own.
func newVLLM(u config.Unit) Dialect {
	c := newCompletions(u)
	return &c
}
