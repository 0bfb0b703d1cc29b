package provider

import (
	"net/url"
	"slices"
	"strings"

	"github.com/ghostline-dev/ghostline/internal/jsonedit"
	"github.com/ghostline-dev/ghostline/proxy/config"
)

// azureOpenAI speaks OpenAI's API as Azure serves it, where a path names the
// deployment (/openai/deployments/NAME/completions?api-version=) or the body does
// (/openai/v1/completions).
type azureOpenAI struct{ completions }

// usageSince is the first api-version in which a stream can tell its usage; earlier
// ones refuse stream_options.
const usageSince = "2024-09-01"

func newAzureOpenAI(u config.Unit) Dialect {
	c := newCompletions(u)
	c.drop = slices.Clone(copilotOnly)
	if target, err := url.Parse(u.URL); err == nil {
		if version := target.Query().Get("api-version"); version != "" && version < usageSince {
			c.usage, c.drop = false, append(c.drop, "stream_options")
		}
		c.unnamed = strings.Contains(target.Path, "/deployments/")
	}
	return &azureOpenAI{c}
}

func (a *azureOpenAI) Request(r Request) (Outbound, error) {
	out, err := a.completions.Request(r)
	if err == nil && r.Credential != "" {
		out.Headers = []Header{{"api-key", r.Credential}}
	}
	return out, err
}

// Event takes the chunks of the content filter, which have a choice but no id and no
// text, for what they are: about the request. Clients know none of them.
func (a *azureOpenAI) Event(head *Head, data []byte) (Event, error) {
	event, err := a.completions.Event(head, data)
	if event.Choices > 0 && event.Tokens == 0 && event.Finished == 0 && string(jsonedit.Value(event.Data, "id")) == `""` {
		event.Choices, event.Seen = 0, 0
	}
	return event, err
}
