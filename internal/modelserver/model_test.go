package modelserver

import (
	"strings"
	"testing"
)

// say runs a completion to its end.
func say(t *testing.T, m *model, req request) (text, reason string) {
	t.Helper()
	if req.maxTokens == 0 {
		req.maxTokens = 200
	}
	req.n = max(req.n, 1)
	all, _ := newCompletions(m, &req)
	c := all[len(all)-1]
	var said strings.Builder
	for c.reason == "" {
		said.WriteString(c.step())
	}
	return said.String(), c.reason
}

const planted = `package fruit

func Weigh(apples []Apple) (grams int) {
	for _, apple := range apples {
		grams += apple.Grams
	}
	return grams
}
`

func TestModelContinuesWhatItLearnt(t *testing.T) {
	m := train([]string{planted})
	at := strings.Index(planted, "grams +=")
	for _, test := range []struct {
		name, prompt, want string
	}{
		{"at a token", planted[:at], planted[at:]},
		{"from the file's start", "", planted},
		{"within a word", planted[:at+3], planted[at+3:]},
		{"after a space", planted[:at+6], planted[at+6:]},
		{"within an indentation", planted[:at-1], planted[at-1:]},
		{"after text never seen", "zzz qqq\nreturn gr", "ams\n}\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, reason := say(t, m, request{prompts: []string{test.prompt}})
			if got != test.want || reason != reasonStop {
				t.Errorf("after %q said %q (%s); want %q (stop)", test.prompt, got, reason, test.want)
			}
		})
	}
}

func TestModelPrefersTheFrequentThenTheAlphabet(t *testing.T) {
	m := train([]string{"x = b\n", "x = c\n", "x = a\n", "x = c\n"})
	if got, _ := say(t, m, request{prompts: []string{"x ="}, maxTokens: 1}); got != " c" {
		t.Errorf("said %q; want the most frequent, %q", got, " c")
	}
	m = train([]string{"x = b\n", "x = a\n"})
	if got, _ := say(t, m, request{prompts: []string{"x ="}, maxTokens: 1}); got != " a" {
		t.Errorf("said %q; want the first of equals, %q", got, " a")
	}
}

func TestModelEndsWhereTheSuffixBegins(t *testing.T) {
	m := train([]string{planted})
	for _, test := range []struct {
		name, prompt, suffix, want string
	}{
		{"the next line", "range apples {\n", "\n\t}\n\treturn grams\n}\n", "\t\tgrams += apple.Grams"},
		{"the next token", "range apples {\n\t\tgrams", " apple.Grams\n", " +="},
		{"a closing bracket", "func Weigh(", ") (grams int) {\n", "apples []Apple"},
		{"brackets that it opened itself", "package fruit\n\n", "}\n", planted[len("package fruit\n\n"):]},
		{"no blank is said twice", "apple.Grams\n\t}", "\n\n}\n", "\n\treturn grams"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, reason := say(t, m, request{prompts: []string{test.prompt}, suffix: test.suffix})
			if got != test.want || reason != reasonStop {
				t.Errorf("between %q and %q said %q (%s); want %q (stop)", test.prompt, test.suffix, got, reason, test.want)
			}
		})
	}
}

// The suffix is preferred to what is more frequent.
func TestModelBridgesToTheSuffix(t *testing.T) {
	m := train([]string{"x = f(a)\ny = 2\n", "x = f(a)\ny = 2\n", "x = f(a)\nz = 3\n"})
	if got, reason := say(t, m, request{prompts: []string{"x ="}, suffix: "\nz = 3\n"}); got != " f(a)" || reason != reasonStop {
		t.Errorf("said %q (%s); want only what is between, %q", got, reason, " f(a)")
	}
}

// Whatever comes before and after it, a completion says something.
func TestModelIsNeverAtALoss(t *testing.T) {
	m := ownModel(t)
	prompts := []string{"", " ", "\n", "zzz", "ж", "return", "}\n", "\x00", "if err != nil {\n\t\treturn err\n\t}\n", "}}}}))))"}
	suffixes := []string{"", "\n", "}", ")\n", "package modelserver", "zzz", "func "}
	for _, prompt := range prompts {
		for _, suffix := range suffixes {
			for _, temperature := range []float64{0, 1} {
				got, _ := say(t, m, request{prompts: []string{prompt}, suffix: suffix, temperature: temperature})
				if isBlank(got) {
					t.Errorf("between %q and %q at temperature %g: said %q", prompt, suffix, temperature, got)
				}
			}
		}
	}
}

func TestModelDoesNotLoop(t *testing.T) {
	m := train([]string{strings.Repeat("0, ", 500) + "\nend of the list\n"})
	got, reason := say(t, m, request{prompts: []string{"0, 0, 0,"}, maxTokens: 1000})
	if n := strings.Count(got, " 0"); n > 4*repeatWindow || reason != reasonStop {
		t.Errorf("said %d times the same and ended by %s: %q", n, reason, got)
	}
}

func TestModelDraws(t *testing.T) {
	m := ownModel(t)
	seed := int64(7)
	ask := func(n int, seed *int64) string {
		got, _ := say(t, m, request{prompts: []string{"func "}, temperature: 1, seed: seed, n: n, maxTokens: 60})
		return got
	}
	if first, second := ask(1, &seed), ask(1, &seed); first != second {
		t.Errorf("the same seed drew %q and %q", first, second)
	}
	if first, second := ask(1, &seed), ask(2, &seed); first == second {
		t.Errorf("two completions of a request are both %q", first)
	}
	different := map[string]bool{}
	for range 10 {
		different[ask(1, nil)] = true
	}
	if len(different) < 2 {
		t.Errorf("without a seed, ten draws were all %v", different)
	}
}

func TestModelCountsTokens(t *testing.T) {
	_, count := newCompletions(ownModel(t), &request{prompts: []string{"a b", "c"}, suffix: " d", n: 2})
	if want := 2 + 1 + 2; count != want {
		t.Errorf("read %d tokens; want %d: each prompt once, with the suffix", count, want)
	}
}

func ownModel(t testing.TB) *model {
	t.Helper()
	own, err := readCorpus(nil)
	if err != nil {
		t.Fatal(err)
	}
	return train(own.files)
}

func BenchmarkTrainOwnSource(b *testing.B) {
	own, err := readCorpus(nil)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		train(own.files)
	}
}

func BenchmarkCompletion(b *testing.B) {
	m := ownModel(b)
	prompt := strings.Repeat(planted, 4096/len(planted)) + "\tif err != nil {\n"
	b.ReportAllocs()
	for b.Loop() {
		all, _ := newCompletions(m, &request{prompts: []string{prompt}, n: 1, maxTokens: 10})
		for all[0].reason == "" {
			all[0].step()
		}
	}
}
