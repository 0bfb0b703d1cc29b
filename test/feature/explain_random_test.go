package feature

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/ghostline-dev/ghostline/internal/token"
	"github.com/ghostline-dev/ghostline/proxy"
	"github.com/ghostline-dev/ghostline/proxy/config"
	"github.com/tidwall/gjson"
)

// drawn makes configs and requests of what stands in the lists below, so that much of
// what they have in common is met by few.
type drawn struct{ *rand.Rand }

func pick[T any](d drawn, of []T) T { return of[d.IntN(len(of))] }

// often is true three times of four.
func (d drawn) often() bool { return d.IntN(4) != 0 }

// some are some of a list, in its order.
func some[T any](d drawn, of []T) []T {
	return slices.DeleteFunc(slices.Clone(of), func(T) bool { return d.often() })
}

var drawnPrograms = []string{"copilot.vim/1.9", "copilot.vim/1.9.0-rc.1", "Copilot.VIM/v2", "copilot/0.9", "copilot/main", "vscode/1.99.0", "curl/8.5.0", "OpenAI/Python 1.2.3", "Ünknown/1", ""}

var drawnMatches = []config.ClientMatch{
	{Name: "copilot.vim", Versions: "<2"}, {Name: "copilot.vim", Versions: ">=1.9.0-rc.2"}, {Name: "copilot", Versions: "<1"}, {Name: "vscode"}, {Name: "OpenAI/Python", Versions: "1.x"}, {Name: "curl"},
}

var drawnChanges = []config.BodyChange{
	bodyChange("Set", "logit_bias.50256", "-100"), bodyChange("Max", "max_tokens", "20"), bodyChange("Default", "max_tokens", "30"), bodyChange("Min", "temperature", "0.5"),
	bodyChange("Append", "stop", `"\n\n"`), bodyChange("Set", "n", "3"), bodyChange("Max", "n", "1"), bodyChange("Set", "prompt", `["a","b"]`),
	bodyChange("Set", "suffix", `"z"`), bodyChange("Set", "suffix", "null"), bodyChange("Set", "echo", "true"), bodyChange("Set", "max_tokens", "null"), bodyChange("Default", `extra.a\.b`, "[1]"),
	bodyChange("Set", "options.num_predict", "7"), bodyChange("Set", "seed", "9"), {Op: "Remove", Path: "extra"}, {Op: "Remove", Path: "nwo"},
}

var drawnFields = []string{
	`"prompt":"a"`, `"prompt":["a\u00e9"]`, `"prompt":["a","b"]`, `"prompt":""`, `"suffix":"b\\"`, `"suffix":""`, `"max_tokens":900`, `"max_tokens":9`, `"max_tokens":0`, `"n":1`, `"n":3`, `"stop":"x"`,
	`"stop":["x","\n\n"]`, `"temperature":0`, `"temperature":1e400`, `"logit_bias":{"7":1}`, `"logit_bias":null`, `"extra":{"language":"go","context":["x"]}`, `"nwo":"a/b"`, `"seed":1e400`, `"random_seed":7`,
	`"stream":true`, `"stream":true`, `"stream_options":{"include_usage":false}`, `"echo":true`, `"best_of":2`, `"options":{"num_predict":4}`, `"n_predict":5`, `"model":"ghost-code"`, `"model":"copilot-codex"`, `"model":"other"`, `"model":"none"`,
}

// config draws a config whose units are all at an address, each with a path of its own.
func (d drawn) config(c *config.Config, address string) {
	models := []config.Model{{Name: "ghost-code", Aliases: []string{"copilot-codex"}}, {Name: "other"}}[:1+d.IntN(2)]
	c.Models, c.Units, c.Mutations, c.Clients = nil, nil, nil, nil
	for _, m := range models {
		m.Split.By = pick(d, []string{config.SplitBySubject, config.SplitByRequest})
		m.Variants = []config.Variant{{Name: "stable", Weight: 1}, {Name: "next", Weight: d.IntN(3), Fallback: pick(d, []string{"", "stable"})}}
		for _, v := range m.Variants {
			for priority := range 1 + d.IntN(3) {
				c.Units = append(c.Units, d.unit(fmt.Sprintf("u%d", len(c.Units)), m.Name+"/"+v.Name, priority, address))
			}
		}
		c.Models = append(c.Models, m)
	}
	for i := range d.IntN(5) {
		m := config.Mutation{Name: fmt.Sprintf("m%d", i), Body: []config.BodyChange{pick(d, drawnChanges), pick(d, drawnChanges)}}
		m.Match.Clients, m.Match.Variants = some(d, drawnMatches), some(d, []string{"stable", "next"})
		if share := float64(d.IntN(101)); d.often() {
			m.Match.SubjectsPercent = &share
		}
		if !d.often() {
			m.Headers = []config.HeaderChange{{Op: "Set", Name: "X-Team", Value: m.Name}, {Op: "Remove", Name: "User-Agent"}}
		}
		c.Mutations = append(c.Mutations, m)
	}
	for _, match := range some(d, drawnMatches) {
		rule := config.ClientRule{Match: match, Action: pick(d, []string{config.ActionWarn, config.ActionUpgrade, config.ActionAllow})}
		if rule.Action != config.ActionAllow {
			rule.Message, rule.DryRun = "Rule "+strconv.Itoa(len(c.Clients)), !d.often()
		}
		c.Clients = append(c.Clients, rule)
	}
}

func (d drawn) unit(name, serves string, priority int, address string) config.Unit {
	p := pick(d, speakers)
	u := config.Unit{Name: name, Region: "here", Serves: serves, Priority: priority, Credential: "unit", MaxTokens: d.IntN(3) * 25, UpstreamModel: "m-" + name, URL: "http://" + address + "/v1/completions"}
	p.configure(&u, config.ProtocolH2C)
	u.URL += map[bool]string{true: "&", false: "?"}[strings.Contains(u.URL, "?")] + "speaker=" + strings.ReplaceAll(p.name, " ", "+") + "&unit=" + name
	return u
}

// answerDrawn answers as the speaker does whom the unit's URL names.
func answerDrawn(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	p := speakerNamed(r.URL.Query().Get("speaker"))
	if gjson.GetBytes(body, "stream").Bool() {
		end := ""
		for i := range max(1, gjson.GetBytes(body, "n").Int()) {
			end += strings.Replace(p.event(p.last), `"index":0`, `"index":`+strconv.FormatInt(i, 10), 1)
		}
		if p.done != "" {
			end += p.event(p.done)
		}
		p.says(end)(w, r)
		return
	}
	answers(http.StatusOK, jsonHeader(), p.answer)(w, r)
}

// question draws a request.
func (d drawn) question(i int) (q proxy.Question) {
	q.Path = pick(d, []string{"/v1/completions", "/v1/engines/copilot-codex/completions", "/v1/fim/completions"})
	q.Subject = fmt.Sprintf("subject-%d", d.IntN(20))
	q.Header = map[string][]string{"X-Request-Id": {fmt.Sprintf("r-%d", i)}}
	for _, name := range []string{"Editor-Plugin-Version", "Editor-Version", "User-Agent"} {
		q.Header[name] = []string{pick(d, drawnPrograms)}
	}
	fields := some(d, drawnFields)
	d.Shuffle(len(fields), func(i, j int) { fields[i], fields[j] = fields[j], fields[i] })
	fields = fields[:min(len(fields), 4)]
	if d.often() { // else one is missing, or stands twice
		fields = append(slices.DeleteFunc(fields, func(f string) bool { return strings.HasPrefix(f, `"prompt`) || strings.HasPrefix(f, `"model`) }), `"prompt":"a"`, `"model":"ghost-code"`)
	}
	q.Body = []byte("{ " + strings.Join(fields, " ,") + "}")
	return q
}

// TestExplainTellsWhatARunningProxyDoes asks a proxy what is explained, with configs and
// requests that are drawn.
func TestExplainTellsWhatARunningProxyDoes(t *testing.T) {
	const configs, requests = 12, 60
	s := start(t, setup{unit: http.HandlerFunc(answerDrawn)})
	address := strings.TrimSuffix(strings.TrimPrefix(s.config.Units[0].URL, "http://"), "/v1/completions")
	client, sent, refused := s.h2c(), 0, 0
	for seed := range uint64(configs) {
		d := drawn{rand.New(rand.NewPCG(seed, 7))}
		for valid := false; !valid; { // a rule that can never count, say
			d.config(&s.config, address)
			data, err := json.Marshal(s.config)
			if err != nil {
				t.Fatal(err)
			}
			_, err = config.Decode(data)
			valid = err == nil
		}
		s.reconfigure(func(*config.Config) {})
		for i := range requests {
			q := d.question(i)
			if s.isAsExplained(client, q) {
				sent++
			} else {
				refused++
			}
			if t.Failed() {
				t.Fatalf("seed %d, request %d: %s %s %v of %s", seed, i, q.Path, q.Body, q.Header, q.Subject)
			}
		}
	}
	if sent < configs*requests/4 || refused < configs*requests/8 {
		t.Errorf("%d requests were sent and %d refused: too few of either", sent, refused)
	}
	s.settled()
}

// isAsExplained says whether the request was sent to a unit.
func (s *stack) isAsExplained(client *http.Client, q proxy.Question) bool {
	t, cfg := s.t, s.config
	t.Helper()
	cfg.SetDefaults()
	q.Config = &cfg
	e, err := proxy.Explain(q)
	if err != nil {
		t.Error(err)
		return false
	}
	req, before := s.request(t.Context(), s.plainURL, q.Path, string(q.Body)), s.arrived.count()
	for name, values := range q.Header {
		req.Header[name] = values
	}
	req.Header.Set("Authorization", "Bearer "+s.token(func(c *token.Claims) { c.Subject = q.Subject }))
	answer := s.do(client, req)
	warned := ""
	if e.ClientRule != nil && e.ClientRule.Action == config.ActionWarn {
		warned = e.ClientRule.Message
	}
	if got := answer.header.Get("X-Ghostline-Warning"); got != warned {
		t.Errorf("the warning is %q, explained %q", got, warned)
	}
	arrived := s.arrived.count() - before
	if e.Refusal != nil {
		told := answer.body
		if e.Refusal.Status != 466 {
			told = gjson.Get(answer.body, "error.message").Str
		}
		if answer.status != e.Refusal.Status || told != e.Refusal.Message || arrived != 0 {
			t.Errorf("answered %d %s, explained %+v", answer.status, answer.body, e.Refusal)
		}
		return false
	}
	if answer.status != http.StatusOK || answer.err != nil || arrived != 1 {
		t.Errorf("answered %d %s, %v, after %d requests; explained %+v", answer.status, answer.body, answer.err, arrived, e.Sent)
		return true
	}
	s.arrivedAsExplained(e, answer)
	return true
}

var uniqueID = regexp.MustCompile(`^(r-\d+)-.+$`)

func (s *stack) arrivedAsExplained(e *proxy.Explanation, answer reply) {
	t, got := s.t, s.arrived.last(s.t)
	t.Helper()
	if string(e.Sent.Body) != got.body || !strings.HasSuffix(got.path, "&unit="+e.Sent.Unit) {
		t.Errorf("explained %s %s\narrived %s %s", e.Sent.Unit, e.Sent.Body, got.path, got.body)
	}
	i := slices.IndexFunc(s.config.Units, func(u config.Unit) bool { return u.Name == e.Sent.Unit })
	if serves, variant := s.config.Units[i].Serves, answer.header.Get("X-Ghostline-Variant"); serves != e.Model+"/"+variant {
		t.Errorf("variant %s answered, explained %s", variant, serves)
	}
	var explained, arrived []string
	for _, h := range e.Sent.Headers {
		explained = append(explained, h.Name+": "+strings.Replace(h.Value, "(the unit's credential)", unitKey, 1))
	}
	for name, values := range got.header {
		value := strings.Join(values, "; ")
		if name == "X-Request-Id" { // to vLLM it goes with something more, which is explained as just that
			value = uniqueID.ReplaceAllString(value, "$1-(unique)")
		}
		if name != "Content-Length" {
			arrived = append(arrived, name+": "+value)
		}
	}
	slices.Sort(explained)
	slices.Sort(arrived)
	if !slices.Equal(explained, arrived) {
		t.Errorf("explained %q\narrived   %q", explained, arrived)
	}
}
