package feature

import (
	"net/http"
	"slices"
	"testing"

	"github.com/ghostline-dev/ghostline/internal/token"
	"github.com/ghostline-dev/ghostline/proxy/config"
	"github.com/tidwall/gjson"
)

// TestModels lists what a subject may use, and nothing more.
func TestModels(t *testing.T) {
	s := start(t, setup{config: func(c *config.Config) {
		c.Models = append(c.Models, config.Model{Name: "other", Variants: []config.Variant{{Name: "only", Weight: 1}}})
	}})
	list := func(raw string) reply {
		req := s.request(t.Context(), s.tlsURL, "/v1/models", "")
		req.Method = http.MethodGet
		if req.Header.Set("Authorization", "Bearer "+raw); raw == "" {
			req.Header.Del("Authorization")
		}
		return s.do(s.h2(), req)
	}
	for _, tc := range []struct {
		name         string
		models, want []string
	}{
		{"all", nil, []string{"copilot-codex", "ghost-code", "other"}},
		{"one with its alias", []string{"ghost-code"}, []string{"copilot-codex", "ghost-code"}},
		{"another, and one that is not here", []string{"other", "gone"}, []string{"other"}},
		{"none", []string{}, []string{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := list(s.token(func(c *token.Claims) { c.Models = tc.models }))
			names := []string{}
			for _, entry := range gjson.Get(got.body, "data").Array() {
				names = append(names, entry.Get("id").Str)
				if entry.Get("object").Str != "model" || entry.Get("owned_by").Str == "" || entry.Get("created").Type != gjson.Number {
					t.Errorf("entry %s; want OpenAI's form", entry.Raw)
				}
			}
			if got.status != http.StatusOK || gjson.Get(got.body, "object").Str != "list" || !slices.Equal(names, tc.want) {
				t.Errorf("got %d %q, want %q", got.status, names, tc.want)
			}
			if id := got.header.Get("X-Request-Id"); id == "" || id != got.header.Get("X-GitHub-Request-Id") {
				t.Errorf("request ids %q and %q", id, got.header.Get("X-GitHub-Request-Id"))
			}
		})
	}
	list("").wantRefusal(t, refusal{status: http.StatusUnauthorized, code: "missing_token"})
	list("bad").wantRefusal(t, refusal{status: http.StatusUnauthorized, code: "invalid_token"})
	s.post("/v1/models", "").wantRefusal(t, refusal{status: http.StatusMethodNotAllowed, code: "method_not_allowed", message: "use GET"})
	s.wantArrivals(0)
}
