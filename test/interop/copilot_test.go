package interop

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ghostline-dev/ghostline/proxy/config"
)

// object is one of JSON's.
type object = map[string]any

const document = "file:///src/add.go"

// copilot runs Copilot's language server as docs/clients.md says, with a document open.
func (s *stack) copilot() *languageServer {
	s.t.Helper()
	home := s.t.TempDir()
	cmd := exec.Command(filepath.Join(installed(s.t, clientsVariable), "node_modules/@github/copilot-language-server-linux-x64/copilot-language-server"), "--stdio")
	cmd.Env = append(os.Environ(), "HOME="+home, "XDG_CONFIG_HOME="+home, "NODE_EXTRA_CA_CERTS="+s.files.CA(),
		"GH_COPILOT_TOKEN="+s.files.OAuthToken, "GH_COPILOT_API_URL="+s.files.IssuerURL()+"/", "GH_COPILOT_SERVER_URL="+s.files.IssuerURL()+"/")
	l := startLanguageServer(s.t, cmd)
	l.call("initialize", object{
		"processId": os.Getpid(), "capabilities": object{"workspace": object{"workspaceFolders": true}}, "workspaceFolders": []object{{"uri": "file:///src", "name": "src"}},
		"initializationOptions": object{
			"editorInfo": object{"name": "Neovim", "version": "0.12.0"}, "editorPluginInfo": object{"name": "copilot.vim", "version": "1.40.0"},
		},
	})
	l.notify("initialized", object{})
	l.notify("workspace/didChangeConfiguration", object{"settings": object{"telemetry": object{"telemetryLevel": "off"}}})
	l.notify("textDocument/didOpen", object{"textDocument": object{"uri": document, "languageId": "go", "version": 1, "text": before + behind}})
	return l
}

// suggest asks for ghost text at the cursor between before and behind, as an editor does
// by itself while its user types.
func suggest() object {
	const automatic = 2
	return object{
		"textDocument": object{"uri": document, "version": 1}, "position": object{"line": 2, "character": 1},
		"context": object{"triggerKind": automatic}, "formattingOptions": object{"tabSize": 4, "insertSpaces": false},
	}
}

// TestCopilotLanguageServer has the program behind most of Copilot's editors log in at
// the issuer and complete by the proxy. The model is our own: it throws away the
// monotonous text of a tiny one.
func TestCopilotLanguageServer(t *testing.T) {
	s := start(t, setup{})
	l := s.copilot()
	var got struct{ Items []struct{ InsertText string } }
	check(t, json.Unmarshal(l.call("textDocument/inlineCompletion", suggest()), &got))
	if len(got.Items) == 0 || strings.TrimSpace(got.Items[0].InsertText) == "" {
		t.Fatalf("got %+v; want ghost text", got)
	}
	if n := s.outcomes("ok"); n == 0 || metric(t, s.files.AdminURL(), "ghostline_requests_total") != n {
		t.Errorf("%v requests were ok; want all", n)
	}
	if n := metric(t, s.files.AdminURL(), "ghostline_client_requests_total", `client="copilot.vim"`, `version_major="1"`); n == 0 {
		t.Error("no request of copilot.vim 1 was counted")
	}
}

// TestCopilotLanguageServerIsTooOld has it told to update.
func TestCopilotLanguageServerIsTooOld(t *testing.T) {
	s := start(t, setup{config: func(c *config.Config) {
		c.Clients = []config.ClientRule{{Match: config.ClientMatch{Name: "copilot.vim", Versions: "<2.0.0"}, Action: config.ActionUpgrade, Message: "Update copilot.vim to 2.0."}}
	}})
	l := s.copilot()
	l.begin("textDocument/inlineCompletion", suggest())
	eventually(t, "a request is refused for its version", func() bool { return s.outcomes("upgrade") > 0 })
}
