package load

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func TestCompletionsURL(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		"https://x":                     "https://x/v1/completions",
		"https://x/":                    "https://x/v1/completions",
		"http://x:8000/v1/":             "http://x:8000/v1/completions",
		"https://x/api/v1":              "https://x/api/v1/completions",
		"https://x/v1/fim/completions":  "https://x/v1/fim/completions",
		"https://x/d/completions?api=1": "https://x/d/completions?api=1",
		"https://x?api=1":               "a query, which only the URL of completions itself may have",
		"x":                             "should look like https://completions.example.com",
		"https://user:pass@x":           "no user",
		"ftp://x":                       "should look like",
		"https://x\x7f":                 "cannot be parsed",
	} {
		u, err := completionsURL(raw)
		switch {
		case err != nil && strings.Contains(err.Error(), "pass"):
			t.Errorf("%q: the error tells the password: %v", raw, err)
		case err != nil && !strings.Contains(err.Error(), want), err == nil && u.String() != want:
			t.Errorf("%q: %v, %v; want %s", raw, u, err, want)
		}
	}
}

func TestBadOptions(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*Options){
		"the users are 0":                            func(o *Options) { o.Users = 0 },
		"it would never end":                         func(o *Options) { o.Requests = 0 },
		"the requests are -1":                        func(o *Options) { o.Requests = -1 },
		"the duration is -1s; it must be from":       func(o *Options) { o.Duration = -time.Second },
		"the timeout is 0s":                          func(o *Options) { o.Timeout = 0 },
		"the keystroke gap is 0s":                    func(o *Options) { o.Typing.Keystroke = 0 },
		"the rate is -1":                             func(o *Options) { o.Rate = -1 },
		"is 101 %":                                   func(o *Options) { o.Typing.CancelPercent = 101 },
		"hardly ever a pause":                        func(o *Options) { o.Typing.Debounce = time.Second },
		"the retries are 11":                         func(o *Options) { o.Retries = 11 },
		"no model is named":                          func(o *Options) { o.Model = "" },
		"max_tokens is 0":                            func(o *Options) { o.MaxTokens = 0 },
		"the suffix has -1 bytes":                    func(o *Options) { o.SuffixBytes = -1 },
		"but not how often":                          func(o *Options) { o.Progress = func(Progress) {} },
		`protocol "h3" is unknown`:                   func(o *Options) { o.Target.Protocol = "h3" },
		"protocol h2 needs an https:// URL":          func(o *Options) { o.Target.Protocol = ProtocolH2 },
		"protocol h2c needs an http:// URL":          func(o *Options) { o.Target = Target{URL: "https://x", Protocol: ProtocolH2C} },
		"should look like https://completions.examp": func(o *Options) { o.Target.URL = "" },
	} {
		o := quick("http://127.0.0.1:1")
		change(&o)
		if _, err := Run(t.Context(), o); !errors.Is(err, ErrOptions) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
