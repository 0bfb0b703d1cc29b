package config

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// The values of [Unit.Provider].
const (
	ProviderOpenAI      = "OpenAI"
	ProviderAzureOpenAI = "AzureOpenAI"
	ProviderVLLM        = "VLLM"
	ProviderLlamaCpp    = "LlamaCpp"
	ProviderOllama      = "Ollama"
	ProviderMistral     = "Mistral"
	ProviderDeepSeek    = "DeepSeek"
)

// Providers returns the values of [Unit.Provider].
func Providers() []string {
	return []string{ProviderOpenAI, ProviderAzureOpenAI, ProviderVLLM, ProviderLlamaCpp, ProviderOllama, ProviderMistral, ProviderDeepSeek}
}

// The values of [Unit.API].
const (
	APICompletions = "Completions" // in OpenAI's form
	APIInfill      = "Infill"      // of LlamaCpp
	APIGenerate    = "Generate"    // of Ollama
)

// APIs returns the APIs of a provider; the first is the default.
func APIs(provider string) []string {
	switch provider {
	case ProviderLlamaCpp:
		return []string{APIInfill, APICompletions}
	case ProviderOllama:
		return []string{APIGenerate, APICompletions}
	}
	return []string{APICompletions}
}

// endpoint is what the path of a unit's URL ends in.
func endpoint(provider, api string) string {
	switch {
	case api == APIInfill:
		return "/infill"
	case api == APIGenerate:
		return "/api/generate"
	case provider == ProviderMistral:
		return "/v1/fim/completions"
	case provider == ProviderDeepSeek:
		return "/beta/completions"
	}
	return "/completions"
}

// FillInTheMiddle is what a model was taught to find around the text before and
// the text behind the cursor: either a named Template, or the marks themselves.
// A prompt is then Prefix, the text before, Suffix, the text behind, Middle.
type FillInTheMiddle struct {
	// Template is one of the names of [Templates].
	Template string `json:"template,omitempty"`

	Prefix string `json:"prefix,omitempty"`
	Suffix string `json:"suffix,omitempty"`
	Middle string `json:"middle,omitempty"`
	// SuffixFirst has Suffix and the text behind the cursor come first, then
	// Prefix and the text before.
	SuffixFirst bool `json:"suffixFirst,omitempty"`
}

// TemplateNone is the template of a model that cannot fill in: it is not shown what
// stands behind the cursor.
const TemplateNone = "None"

// templates are the marks that model families were trained with, as their
// tokenizers spell them.
var templates = map[string]FillInTheMiddle{
	TemplateNone: {},
	"CodeGemma":  {Prefix: "<|fim_prefix|>", Suffix: "<|fim_suffix|>", Middle: "<|fim_middle|>"},
	"CodeLlama":  {Prefix: "<PRE> ", Suffix: " <SUF>", Middle: " <MID>"},
	"Codestral":  {Suffix: "[SUFFIX]", Prefix: "[PREFIX]", SuffixFirst: true},
	"DeepSeek":   {Prefix: "<｜fim▁begin｜>", Suffix: "<｜fim▁hole｜>", Middle: "<｜fim▁end｜>"},
	"Qwen":       {Prefix: "<|fim_prefix|>", Suffix: "<|fim_suffix|>", Middle: "<|fim_middle|>"},
	"StarCoder":  {Prefix: "<fim_prefix>", Suffix: "<fim_suffix>", Middle: "<fim_middle>"},
}

// Templates returns the values of [FillInTheMiddle.Template], sorted.
func Templates() []string {
	var names []string
	for name := range templates {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Marks is f with a named template put in its place.
func (f FillInTheMiddle) Marks() FillInTheMiddle {
	if f.Template == "" {
		return f
	}
	marks := templates[f.Template]
	marks.Template = f.Template
	return marks
}

// maxMark bounds a mark, in bytes.
const maxMark = 256

// MaxTokensOf is the most that the provider lets an answer have, or that it is wise
// to ask it for; 0 is no bound.
func MaxTokensOf(provider string) int {
	switch provider {
	case ProviderAzureOpenAI:
		// What is asked for counts against the deployment's rate limit, whether it
		// comes or not. Copilot's clients ask for 500 at most.
		return 500
	case ProviderDeepSeek:
		return 4096
	}
	return 0
}

// checkDialect checks the fields that say how the unit is spoken to.
func (u *Unit) checkDialect(p *problems, path, urlPath string) {
	p.oneOf(path+".provider", u.Provider, Providers()...)
	if !slices.Contains(Providers(), u.Provider) {
		return
	}
	p.oneOf(path+".api", u.API, APIs(u.Provider)...)
	u.checkEndpoint(p, path+".url", urlPath)
	u.checkFillInTheMiddle(p, path+".fillInTheMiddle")
	if u.MaxTokens < 0 || u.MaxTokens > maxMaxTokens {
		p.add(path+".maxTokens", "is %d; it must be 1 to %d, or 0 for the provider's default", u.MaxTokens, maxMaxTokens)
	}
}

// maxMaxTokens is the longest answer that a client may ask for, too.
const maxMaxTokens = 1<<31 - 1

// chats is what the endpoints of chats end in, which have most providers' better known API.
const chats = "/chat/completions"

// checkEndpoint refuses an URL without its path, and that of another API:
// nothing would work, and no request would tell why. Other paths may be
// right, behind a gateway.
func (u *Unit) checkEndpoint(p *problems, path, urlPath string) {
	want := endpoint(u.Provider, u.API)
	switch {
	case urlPath == "":
	case urlPath == "/":
		p.add(path, "has no path; it must be the whole endpoint, which of %s's API %s ends in %s", u.Provider, u.API, want)
	case strings.HasSuffix(urlPath, chats):
		p.add(path, "ends in %s, which is an API for chats; it must be the endpoint of completions, which of %s's API %s ends in %s", chats, u.Provider, u.API, want)
	case strings.HasSuffix(urlPath, want):
	default:
		for _, api := range APIs(u.Provider) {
			if other := endpoint(u.Provider, api); strings.HasSuffix(urlPath, other) {
				p.add(path, "ends in %s, which is %s's API %s; set api to that, or have the url end in %s", other, u.Provider, api, want)
			}
		}
	}
}

// refusesSuffix says whether the unit's API cannot be shown what stands behind the
// cursor but by a template.
func (u *Unit) refusesSuffix() bool {
	return u.Provider == ProviderVLLM || u.Provider == ProviderLlamaCpp && u.API == APICompletions
}

// takesTemplate says whether a prompt reaches the model as it is sent, so that a
// template can be in it.
func (u *Unit) takesTemplate() bool {
	return u.refusesSuffix() || u.Provider == ProviderOpenAI || u.Provider == ProviderAzureOpenAI || u.API == APIGenerate
}

func (u *Unit) checkFillInTheMiddle(p *problems, path string) {
	f := u.FillInTheMiddle
	switch {
	case f == nil && u.refusesSuffix():
		p.add(path, "is missing; %s's API %s refuses the field suffix, so it must name the model's template, one of %s, or give its marks",
			u.Provider, u.API, strings.Join(Templates(), ", "))
	case f == nil:
	case !u.takesTemplate():
		p.add(path, "does not go with %s's API %s, which takes the field suffix; remove it", u.Provider, u.API)
	case f.Template != "" && *f != (FillInTheMiddle{Template: f.Template}):
		p.add(path, "has a template and marks; it must have either template or prefix, suffix and middle")
	case f.Template != "":
		p.oneOf(path+".template", f.Template, Templates()...)
	default:
		f.checkMarks(p, path)
	}
}

func (f *FillInTheMiddle) checkMarks(p *problems, path string) {
	for _, mark := range []struct{ name, text string }{{"prefix", f.Prefix}, {"suffix", f.Suffix}, {"middle", f.Middle}} {
		if len(mark.text) > maxMark || !utf8.ValidString(mark.text) {
			p.add(path+"."+mark.name, "has %d bytes; it must be at most %d, in UTF-8", len(mark.text), maxMark)
		}
	}
	if f.Suffix == "" {
		p.add(path+".suffix", "is missing; without a mark the model cannot tell the text behind the cursor from the text before it")
	}
}
