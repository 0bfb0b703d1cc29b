package proxy

import (
	"net/textproto"
	"testing"

	"github.com/ghostline-dev/ghostline/proxy/config"
)

func TestClientMatch(t *testing.T) {
	for _, tc := range []struct {
		match config.ClientMatch
		c     clientInfo
		want  bool
	}{
		{config.ClientMatch{Name: "copilot"}, newClientInfo("copilot", "1.2"), true},
		{config.ClientMatch{Name: "GitHubCopilotChat"}, newClientInfo("githubcopilotchat", "0.1"), true},
		{config.ClientMatch{Name: "copilot"}, newClientInfo("copilot", "nightly"), true},
		{config.ClientMatch{Name: "copilot"}, newClientInfo("copilot.vim", "1.2"), false},
		{config.ClientMatch{Name: "copilot"}, clientInfo{}, false},
		{config.ClientMatch{Name: "copilot", Versions: "<1.2"}, newClientInfo("Copilot", "1.1.9"), true},
		{config.ClientMatch{Name: "copilot", Versions: "<1.2"}, newClientInfo("copilot", "1.2.0"), false},
		{config.ClientMatch{Name: "copilot", Versions: "<1.2"}, newClientInfo("copilot", "nightly"), false},
		{config.ClientMatch{Name: "copilot", Versions: ">=0"}, newClientInfo("copilot", "nightly"), false},
		{config.ClientMatch{Name: "OpenAI/Python", Versions: "1.x"}, newClientInfo("OpenAI/Python", "1.40.0"), true},
	} {
		m, err := newClientMatch(tc.match)
		if err != nil {
			t.Fatal(err)
		}
		if got := m.matches(tc.c); got != tc.want {
			t.Errorf("%+v and %+v: %t, want %t", tc.match, tc.c, got, tc.want)
		}
	}
	if _, err := newClientMatch(config.ClientMatch{Name: "copilot", Versions: "old"}); err == nil {
		t.Error(`the versions "old" were taken`)
	}
}

// TestIsFromAnyOfTheRequestsClients: a rule for the editor is for its plug-ins too.
func TestIsFromAnyOfTheRequestsClients(t *testing.T) {
	x := &exchange{header: textproto.MIMEHeader{
		"Editor-Plugin-Version": {"copilot/1.300.0"}, "Editor-Version": {"vscode/1.99.0"},
		"Copilot-Language-Server-Version": {"1.280.0"}, "User-Agent": {"GithubCopilot/1.300.0 (linux)"},
	}}
	for _, tc := range []struct {
		name, versions string
		want           bool
	}{
		{"copilot", "=1.300.0", true},
		{"vscode", "=1.99.0", true},
		{"copilot-language-server", "=1.280.0", true},
		{"githubcopilot", "=1.300.0", true},
		{"vscode", "=1.300.0", false}, // the plug-in's, not the editor's
		{"neovim", "", false},
	} {
		m, err := newClientMatch(config.ClientMatch{Name: tc.name, Versions: tc.versions})
		if err != nil {
			t.Fatal(err)
		}
		if got := x.isFrom(m); got != tc.want {
			t.Errorf("%s %s: %t, want %t", tc.name, tc.versions, got, tc.want)
		}
	}
}
