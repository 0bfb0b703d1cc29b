package provider

import "github.com/ghostline-dev/ghostline/proxy/config"

// vLLM speaks vLLM's completions, which are OpenAI's but for the suffix: any that is not
// null is refused, so it goes into the prompt. Fields that vLLM does not know it ignores,
// so Copilot's stay, and min_tokens is one of its own.
type vLLM struct{ completions }

func newVLLM(u config.Unit) Dialect {
	c := newCompletions(u)
	c.drop = []string{"request_id"}
	return &vLLM{c}
}

// Request has an id that is this request's alone. vLLM takes the header for the id in
// its engine, which refuses a second one with that id while the first runs, and in some
// versions ends or hangs at it (vllm issues 10583, 15041). Clients send theirs again when
// they reconnect, and mirrors copy it.
func (v *vLLM) Request(r Request) (Outbound, error) {
	out, err := v.completions.Request(r)
	if err == nil && r.Unique != nil {
		out.Headers = append(out.Headers, Header{"X-Request-Id", r.ID + "-" + r.Unique()})
	}
	return out, err
}
