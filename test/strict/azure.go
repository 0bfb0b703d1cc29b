package strict

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strconv"
)

// AzureOpenAI is Azure OpenAI's POST /openai/deployments/{deployment}/completions
// with api-version, and POST /openai/v1/completions, whose body names the
// deployment as its model.
//
// Written from the Azure OpenAI inference specification 2024-10-21
// (createCompletionRequest, createCompletionResponse, promptFilterResults,
// contentFilterChoiceResults, errorResponse) and its documentation's "Content
// streaming", "Content filtering" and "Provisioned throughput"; limits of -1 and 0
// are from openai-dotnet's issue 838. Where a recorded stream of 2026 and the
// documentation differ, this is the recorded one: verdicts go on behind the reason,
// and a block is followed by [DONE] at once.
func AzureOpenAI(o Options) *Provider {
	o.APIVersion = cmp.Or(o.APIVersion, "2024-10-21")
	return newProvider(o, azure{})
}

type azure struct{}

const azureV1 = "/openai/v1/completions"

// azureFields are OpenAI's. In the path of a deployment the specification has no
// model: the service skips one that is sent, as the SDKs do.
func azureFields(v1 bool) []field {
	fields := openAIFields()
	if !v1 {
		fields[0] = text("model") // not required
	}
	return fields
}

func (azure) judge(in *inspection) *reply {
	got := in.got
	v1 := got.Path == azureV1
	deployment := fmt.Sprintf("/openai/deployments/%s/completions", in.options.Model)
	if !v1 && got.Path != deployment || got.Method != http.MethodPost {
		in.violate("%s %s is not of the API; it has POST %s and %s", got.Method, got.Path, deployment, azureV1)
		if got.Path != deployment && got.Method == http.MethodPost {
			return azureError(http.StatusNotFound, "DeploymentNotFound", "The API deployment for this resource does not exist. If you created the deployment within the last 5 minutes, please wait a moment and try again.")
		}
		return azureError(http.StatusNotFound, "404", "Resource not found")
	}
	if !in.apiKey() {
		return azureError(http.StatusUnauthorized, "401", "Access denied due to invalid subscription key or wrong API endpoint. Make sure to provide a valid key for an active subscription and use a correct regional API endpoint for your resource.")
	}
	if refusal := in.azureVersion(v1); refusal != nil {
		return refusal
	}
	if refusal := in.openAIBody(azureFields(v1)); refusal != nil {
		return refusal
	}
	switch {
	case v1 && !in.model():
		return azureError(http.StatusNotFound, "DeploymentNotFound", "The API deployment for this resource does not exist.")
	case !v1 && got.Model != "":
		got.Unknown = append(got.Unknown, "model")
	}
	return nil
}

// azureVersion judges the query: the version is required in the path of a
// deployment, and optional and "v1" or "preview" in the other.
func (in *inspection) azureVersion(v1 bool) *reply {
	for name := range in.got.Query {
		if name != "api-version" {
			in.violate("query parameter %s is not of the API", name)
		}
	}
	versions := in.got.Query["api-version"]
	wanted := []string{in.options.APIVersion}
	if v1 {
		if len(versions) == 0 {
			return nil
		}
		wanted = []string{"v1", "preview"}
	}
	if len(versions) != 1 || !slices.Contains(wanted, versions[0]) {
		in.violate("api-version is %q; it must be one of %q", versions, wanted)
		return azureError(http.StatusNotFound, "404", "Resource not found")
	}
	return nil
}

// azureError is what the gateway says; the model behind it answers in OpenAI's form.
func azureError(status int, code, message string) *reply {
	return refuse(status, map[string]any{"error": map[string]string{"code": code, "message": message}})
}

// severities is the verdict of the content filter, filtered for violence if bad.
func severities(bad bool) map[string]any {
	verdict := func(bad bool) map[string]any {
		if bad {
			return map[string]any{"filtered": true, "severity": "medium"}
		}
		return map[string]any{"filtered": false, "severity": "safe"}
	}
	return map[string]any{"hate": verdict(false), "self_harm": verdict(false), "sexual": verdict(false), "violence": verdict(bad)}
}

// failure: a 400 is a prompt that the content filter refuses.
func (azure) failure(f Failure, got *Request) *reply {
	switch f.Status {
	case http.StatusBadRequest:
		return refuse(f.Status, map[string]any{"error": map[string]any{
			"message": f.message("The response was filtered due to the prompt triggering Azure OpenAI's content management policy. Please modify your prompt and retry."),
			"type":    nil, "param": "prompt", "code": "content_filter", "status": f.Status,
			"innererror": map[string]any{"code": "ResponsibleAIPolicyViolation", "content_filter_result": severities(true)},
		}})
	case http.StatusTooManyRequests:
		r := azureError(f.Status, "429", f.message("Requests to the Completions_Create Operation under Azure OpenAI API have exceeded token rate limit of your current OpenAI S0 pricing tier. Please retry after "+seconds(f.wait())+" seconds."))
		if !f.Bare {
			for name, value := range map[string]string{
				"Retry-After": seconds(f.wait()), "Retry-After-Ms": strconv.FormatInt(f.wait().Milliseconds(), 10),
				"X-Ratelimit-Limit-Tokens": "-1", "X-Ratelimit-Remaining-Tokens": "-1", "X-Ratelimit-Reset-Tokens": "0",
				"X-Ratelimit-Remaining-Requests": "0", "Policy-Id": "DeploymentRatelimit-Token",
			} {
				r.header.Set(name, value)
			}
		}
		return r
	default:
		return openAI{}.failure(f, got)
	}
}

func (azure) answer(x *exchange) answer { return &azureAnswer{openAIAnswer{x}} }

// azureAnswer is OpenAI's with the verdicts of the content filter.
type azureAnswer struct{ openAIAnswer }

type filteredChoice struct {
	choice
	Filter any `json:"content_filter_results,omitempty"`
}

type promptVerdict struct {
	PromptIndex int            `json:"prompt_index"`
	Filter      map[string]any `json:"content_filter_results"`
}

func (a *azureAnswer) promptVerdicts() []promptVerdict {
	var all []promptVerdict
	for i := range max(len(a.x.got.Prompts), 1) {
		all = append(all, promptVerdict{i, severities(false)})
	}
	return all
}

func (a *azureAnswer) header() http.Header {
	return http.Header{
		"Content-Type": {"text/event-stream; charset=utf-8"}, "Openai-Processing-Ms": {"12"}, "X-Envoy-Upstream-Service-Time": {"14"},
		"Apim-Request-Id": {"3f0c3b0e-6f0e-4f0a-9a57-4d2f3c1b0a99"}, "X-Ms-Region": {"West Europe"}, "X-Request-Id": {"8d2b7f34-1c55-4a3e-9e0d-6b1a2c3d4e5f"},
		"X-Ratelimit-Remaining-Requests": {"-1"}, "X-Ratelimit-Remaining-Tokens": {"0"},
	}
}

// annotation is an event that has no id, object, model, text and usage: only verdicts.
type annotation struct {
	Choices       []any           `json:"choices"`
	Created       int64           `json:"created"`
	ID            string          `json:"id"`
	Model         string          `json:"model"`
	Object        string          `json:"object"`
	PromptFilters []promptVerdict `json:"prompt_filter_results,omitempty"`
}

// chunk names the version of the model, not the deployment.
func (a *azureAnswer) chunk(choices ...any) completion {
	c := a.openAIAnswer.chunk(choices...)
	c.Model = "gpt-35-turbo-instruct-0914"
	return c
}

// begin sends the verdict on the prompts, before there is a token.
func (a *azureAnswer) begin() error {
	return a.x.data(annotation{PromptFilters: a.promptVerdicts(), Choices: []any{}})
}

func (a *azureAnswer) piece(i int, text string) error {
	one := filteredChoice{choice: choice{Text: text, Index: i}}
	if !a.x.script.AsyncFilter {
		one.Filter = severities(false)
	}
	c := a.chunk(one)
	c.Obfuscation = a.padding()
	if err := a.x.data(c); err != nil || !a.x.script.AsyncFilter {
		return err
	}
	return a.annotate(i, nil)
}

// annotate sends the verdict on what was said so far.
func (a *azureAnswer) annotate(i int, reason *string) error {
	offset := a.x.usage().Prompt
	return a.x.data(annotation{Choices: []any{map[string]any{
		"index": i, "finish_reason": reason, "content_filter_results": severities(reason != nil),
		"content_filter_offsets": map[string]int{"check_offset": offset, "start_offset": offset, "end_offset": offset + len(a.x.said(i))},
	}}})
}

const blocked = "content_filter"

// finish: a filter that runs beside the answer stops it in a verdict, and has more
// to say behind the model's own reason.
func (a *azureAnswer) finish(i int, reason string) error {
	switch {
	case !a.x.script.AsyncFilter:
		return a.x.data(a.chunk(filteredChoice{choice{Index: i, FinishReason: &reason}, severities(reason == blocked)}))
	case reason == blocked:
		return a.annotate(i, &reason)
	}
	if err := a.x.data(a.chunk(filteredChoice{choice: choice{Index: i, FinishReason: &reason}})); err != nil {
		return err
	}
	return a.annotate(i, nil)
}

// end: behind a block there is no usage, even if it was asked for.
func (a *azureAnswer) end() error {
	if slices.Contains(a.x.reasons, blocked) || !a.x.got.Usage {
		return a.x.done()
	}
	c := a.chunk()
	c.Choices, c.Usage = []any{}, newUsage(a.x.usage())
	if err := a.x.data(c); err != nil {
		return err
	}
	return a.x.done()
}

func (a *azureAnswer) whole() any {
	c := a.chunk()
	for i, reason := range a.x.reasons {
		c.Choices = append(c.Choices, filteredChoice{choice{Text: a.x.said(i), Index: i, FinishReason: &reason}, severities(reason == blocked)})
	}
	c.Usage = newUsage(a.x.usage())
	return struct {
		completion
		PromptFilters []promptVerdict `json:"prompt_filter_results"`
	}{c, a.promptVerdicts()}
}
