package feature

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ghostline-dev/ghostline/proxy/config"
	"github.com/tidwall/gjson"
)

// reloaded waits until the newest config was looked at, and taken or refused.
func (s *stack) reloaded(ok bool) {
	s.t.Helper()
	want := 0.0
	if ok {
		want = 1
	}
	s.eventually(fmt.Sprintf("the newest config is in use: %v", ok), func() bool {
		return s.metric("ghostline_config_last_reload_successful") == want
	})
}

// answers checks that the proxy serves.
func (s *stack) answers() {
	s.t.Helper()
	if got := s.post("/v1/completions", goodBody); got.status != http.StatusOK {
		s.t.Errorf("got %d %.200q, want 200", got.status, got.body)
	}
}

// TestWrongConfigKeepsTheLastGood breaks the config in turn and mends it again,
// while one stream runs through it all.
func TestWrongConfigKeepsTheLastGood(t *testing.T) {
	unit := newSlowUnit()
	s := start(t, setup{unit: unit})
	stream := make(chan reply, 1)
	running := s.request(t.Context(), s.plainURL, "/v1/completions", prompt)
	running.Header.Set("X-Request-Id", "slow")
	go func() { stream <- s.do(s.h2c(), running) }()
	<-unit.began

	good := s.configHash()
	marshal := func(change func(*config.Config)) string {
		c := s.config
		c.Units = append([]config.Unit(nil), c.Units...)
		change(&c)
		data, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	for _, tc := range []struct{ name, file, content, want string }{
		{"empty", "config.json", "", "it is empty"},
		{"half written", "config.json", marshal(func(*config.Config) {})[:100], "neither YAML nor JSON"},
		{"of the wrong type", "config.json", `{"region": 1}`, "region: is a number; it must be a string"},
		{"without units", "config.json", marshal(func(c *config.Config) { c.Units = nil }), "units: has 0 entries"},
		{"with an unknown provider", "config.json", marshal(func(c *config.Config) { c.Units[0].Provider = "Acme" }), "units[0].provider: "},
		{"from the future", "config.json", marshal(func(c *config.Config) { c.Requires = []string{"time"} }), "requires[0]: "},
		{"with keys that are not there", "config.json", marshal(func(c *config.Config) { c.Tokens.KeySet.File = "absent" }), "tokens.keySet: open"},
		{"with a denied list that is not there", "config.json",
			marshal(func(c *config.Config) { c.Tokens.DeniedSubjects = &config.DeniedSubjects{File: "absent"} }), "tokens.deniedSubjects: open"},
		{"keys that are none", "jwks.json", `{"keys":[]}`, "no Ed25519 key"},
		{"keys half written", "jwks.json", `{"keys":[{"kty"`, "not a JSON Web Key Set"},
		{"a private key", "jwks.json", `{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"k","x":"AA","d":"sesame-key"}]}`, "private key"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s.write(tc.file, tc.content)
			s.reloaded(false)
			s.answers()
			s.eventually("the log says "+tc.want, func() bool { return strings.Contains(s.log.String(), tc.want) })
			if hash := gjson.Get(s.admin("/statusz"), "configHash").Str; hash != good {
				t.Errorf("the config in use is %s, want %s", hash, good)
			}
			s.writeConfig()
			s.writeKeys(s.signer)
			s.reloaded(true)
		})
	}
	close(unit.end)
	if got := <-stream; got.status != http.StatusOK || got.err != nil || !strings.HasSuffix(got.body, "data: [DONE]\n\n") {
		t.Errorf("the stream that ran meanwhile: %d, %v, %q", got.status, got.err, got.body)
	}
	s.wantNoLeak(nil, "sesame-key")
}

// TestStreamKeepsItsVariantAndUnit: a reload that moves everybody to another
// variant, or takes a stream's unit away, is for the next request.
func TestStreamKeepsItsVariantAndUnit(t *testing.T) {
	release := make(chan struct{})
	s, units := cast(t, setup{config: func(c *config.Config) {
		c.Models[0].Variants = []config.Variant{{Name: "stable", Weight: 1}, {Name: "next", Weight: 0}}
		c.Units[1].Serves = "ghost-code/next"
	}}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		says(event(chunk(0, "a", "null")))(w, r)
		select {
		case <-release:
			send(w, whole("b"))
		case <-r.Context().Done():
		}
	}), says(whole("next")))
	client := s.h2()
	resp, err := client.Do(s.request(t.Context(), s.tlsURL, "/v1/completions", prompt))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	for _, change := range []func(*config.Config){
		func(c *config.Config) { c.Models[0].Variants[0].Weight, c.Models[0].Variants[1].Weight = 0, 1 },
		func(c *config.Config) { c.Units = c.Units[1:] },
	} {
		s.reconfigure(change)
		next := s.do(client, s.request(t.Context(), s.tlsURL, "/v1/completions", prompt))
		if v := next.header.Get("X-Ghostline-Variant"); v != "next" || next.body != whole("next") {
			t.Errorf("the next request got variant %q, %q", v, next.body)
		}
	}
	if _, gone, running := units[0].counts(); gone != 0 || running != 1 {
		t.Errorf("at the stream's unit %d have left and %d run; want none and 1", gone, running)
	}
	close(release)
	body, err := io.ReadAll(resp.Body)
	if v := resp.Header.Get("X-Ghostline-Variant"); v != "stable" || err != nil || string(body) != event(chunk(0, "a", "null"))+whole("b") {
		t.Errorf("the stream has variant %q, %q, %v; want all of stable's", v, body, err)
	}
	wantAsked(t, units, 1, 2)
	s.settled()
	s.outcomes("ok", 2) // the stream's unit has no series any more
}

// TestWrongConfigStopsNeitherDenialNorRotation: what the config in use names
// goes on being read while a newer config is refused.
func TestWrongConfigStopsNeitherDenialNorRotation(t *testing.T) {
	s := start(t, setup{})
	s.write("denied", "")
	s.config.Tokens.DeniedSubjects = &config.DeniedSubjects{File: "denied"}
	s.writeConfig()
	s.eventually("the list is in use", func() bool { return strings.Contains(s.admin("/statusz"), s.configHash()) })
	s.write("config.json", "wrong")
	s.reloaded(false)
	s.answers()
	s.write("denied", "subject-1\n")
	s.eventually("the subject is denied", func() bool { return s.post("/v1/completions", goodBody).status == http.StatusForbidden })
	s.write("denied", "")
	s.eventually("the subject is allowed", func() bool { return s.post("/v1/completions", goodBody).status == http.StatusOK })
	s.write("jwks.json", `{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"k","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}`)
	s.eventually("the key is withdrawn", func() bool { return s.post("/v1/completions", goodBody).status == http.StatusUnauthorized })
	if s.metric("ghostline_config_last_reload_successful") != 0 {
		t.Error("the config passes for the newest")
	}
}

func TestUnknownFieldsAreIgnored(t *testing.T) {
	s := start(t, setup{})
	fields := map[string]any{}
	data, err := json.Marshal(s.config)
	if err == nil {
		err = json.Unmarshal(data, &fields)
	}
	if err != nil {
		t.Fatal(err)
	}
	fields["mirrors"] = []string{"sesame-value"}
	fields["limits"].(map[string]any)["perPlanet"] = 1
	if data, err = json.Marshal(fields); err != nil {
		t.Fatal(err)
	}
	s.write("config.json", string(data))
	s.eventually("two unknown fields are counted", func() bool { return s.metric("ghostline_config_unknown_fields") == 2 })
	s.reloaded(true)
	s.eventually("the config is in use", func() bool { return strings.Contains(s.admin("/statusz"), config.Hash(data)) })
	s.answers()
	for _, name := range []string{`\"mirrors\"`, `\"limits.perPlanet\"`} {
		if !strings.Contains(s.log.String(), name) {
			t.Errorf("the log does not name %s", name)
		}
	}
	s.writeConfig()
	s.eventually("none is unknown any more", func() bool { return s.metric("ghostline_config_unknown_fields") == 0 })
}

// TestMountedConfig changes a config as kubelet does: the files are links into a
// directory that is swapped as a whole.
func TestMountedConfig(t *testing.T) {
	s := start(t, setup{})
	link := func(target, name string) {
		t.Helper()
		if err := os.Symlink(target, filepath.Join(s.dir, name+".new")); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(s.dir, name+".new"), filepath.Join(s.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	mount := func(version, region string) (hash string) {
		s.config.Region, s.config.Units[0].Region = region, region
		data, err := json.Marshal(s.config)
		if err != nil {
			t.Fatal(err)
		}
		s.write(filepath.Join(version, "config.json"), string(data))
		link(version, "..data")
		return config.Hash(data)
	}
	inUse := func(hash string) func() bool {
		return func() bool { return gjson.Get(s.admin("/statusz"), "configHash").Str == hash }
	}
	first := mount("..v1", "one")
	link("..data/config.json", "config.json")
	s.eventually("the first version is in use", inUse(first))
	second := mount("..v2", "two")
	if err := os.RemoveAll(filepath.Join(s.dir, "..v1")); err != nil {
		t.Fatal(err)
	}
	s.eventually("the second version is in use", inUse(second))
	s.reloaded(true)
	s.answers()
}

// TestUnitsWithoutCredential leaves one unit out and serves with the other,
// until the credential comes.
func TestUnitsWithoutCredential(t *testing.T) {
	s := start(t, setup{config: func(c *config.Config) {
		other := c.Units[0]
		other.Name, other.Credential = "unit-2", "late"
		lone := other
		lone.Name, lone.Serves = "unit-3", "lone/only"
		c.Units = append(c.Units, other, lone)
		c.Models = append(c.Models, config.Model{Name: "lone", Variants: []config.Variant{{Name: "only", Weight: 1}}})
	}})
	state := func(unit string) gjson.Result {
		return gjson.Get(s.admin("/statusz"), `units.#(name=="`+unit+`")`)
	}
	leftOut := func(problem string) func() bool {
		return func() bool {
			return state("unit-1").Get("state").Str == "active" && state("unit-2").Get("state").Str == "left_out" &&
				strings.Contains(state("unit-2").Get("problem").Str, problem)
		}
	}
	s.eventually("the unit is left out", leftOut("no such file"))
	s.reloaded(true)
	s.answers()
	s.post("/v1/engines/lone/completions", goodBody).wantRefusal(t,
		refusal{status: http.StatusServiceUnavailable, code: "no_capacity", message: "at the moment", retry: true})
	for _, content := range []string{"", "sesame-key\nsesame-key-2", "sesame-é", strings.Repeat("sesame", 8<<10)} {
		before := gjson.Get(s.admin("/statusz"), "loaded").Str
		s.write("credentials/late", content)
		s.eventually("a bad credential is read, and is none", func() bool {
			return gjson.Get(s.admin("/statusz"), "loaded").Str != before && leftOut("visible ASCII")()
		})
	}
	s.write("credentials/late", "sesame-late\n")
	s.eventually("the unit is active", func() bool { return state("unit-2").Get("state").Str == "active" })
	if got := s.post("/v1/engines/lone/completions", goodBody); got.status != http.StatusOK {
		t.Errorf("got %d %.200q, want 200", got.status, got.body)
	}
	if got := s.arrived.last(t).header.Get("Authorization"); got != "Bearer sesame-late" {
		t.Errorf("the unit got %q", got)
	}
	s.write("credentials/late", "sesame-rotated")
	s.eventually("the new credential is used", func() bool {
		s.post("/v1/engines/lone/completions", goodBody)
		return s.arrived.last(t).header.Get("Authorization") == "Bearer sesame-rotated"
	})
	s.wantNoLeak(nil, "sesame")
}

// slowUnit streams two events to the request named slow, the second one when
// the test says so, and answers every other request at once.
type slowUnit struct{ began, end chan struct{} }

func newSlowUnit() *slowUnit { return &slowUnit{make(chan struct{}), make(chan struct{})} }

func (u *slowUnit) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	const choice = `{"choices":[{"index":0,"text":"x","finish_reason":%s}]}`
	if r.Header.Get("X-Request-Id") != "slow" {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, choice, `"stop"`)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	fmt.Fprintf(w, "data: "+choice+"\n\n", "null")
	_ = http.NewResponseController(w).Flush()
	close(u.began)
	<-u.end
	fmt.Fprintf(w, "data: "+choice+"\n\ndata: [DONE]\n\n", `"stop"`)
}
