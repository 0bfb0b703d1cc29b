package config

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/ghostline-dev/ghostline/internal/clientversion"
)

const (
	maxClientRules   = 64
	maxClientMessage = 1 << 10
)

// clientNamePattern is what a program's name can be in the headers that clients
// name themselves in.
var clientNamePattern = regexp.MustCompile(`^[A-Za-z0-9._/:+=-]{1,64}$`)

// sdkName are the names with a slash, behind which others have their version:
// OpenAI/Python, AsyncOpenAI/Python.
var sdkName = regexp.MustCompile(`^(?i:(async)?openai)/[^/]+$`)

func (c *Config) checkClients(p *problems) {
	if len(c.Clients) > maxClientRules {
		p.add("clients", "has %d entries; at most %d are allowed", len(c.Clients), maxClientRules)
	}
	all := map[string]int{} // rules for every version, by client
	for i := range c.Clients {
		rule, path := &c.Clients[i], fmt.Sprintf("clients[%d]", i)
		rule.Match.check(p, path+".match")
		rule.check(p, path)
		name := strings.ToLower(rule.Match.Name)
		if first, ok := all[name]; ok {
			p.add(path, "can never count, since clients[%d] is for all versions of %s and comes first; put this rule before it", first, rule.Match.Name)
		} else if rule.Match.Versions == "" && !rule.DryRun {
			all[name] = i
		}
	}
}

// check checks the match of a rule, or of a mutation.
func (m *ClientMatch) check(p *problems, path string) {
	if !clientNamePattern.MatchString(m.Name) {
		p.add(path+".name", "%q is no client's name; it must be 1 to 64 letters, digits or any of '.', '_', '/', ':', '+', '=' and '-', such as copilot.vim", m.Name)
	} else if strings.Contains(m.Name, "/") && !sdkName.MatchString(m.Name) {
		p.add(path+".name", "%q is a name and a version; the name is what stands before the slash, and versions has a range such as \"<1.40.0\"", m.Name)
	}
	if m.Versions == "" {
		return
	}
	if _, err := clientversion.ParseRange(m.Versions); err != nil {
		p.add(path+".versions", "%s", err)
	}
}

func (r *ClientRule) check(p *problems, path string) {
	p.oneOf(path+".action", r.Action, ActionAllow, ActionWarn, ActionUpgrade)
	if r.Action == ActionAllow {
		if r.Message != "" {
			p.add(path+".message", "goes only with Warn and Upgrade; nobody is shown it")
		}
		if r.DryRun {
			p.add(path+".dryRun", "goes only with Warn and Upgrade; remove the rule instead")
		}
		return
	}
	switch {
	case r.Message == "":
		p.add(path+".message", `is missing; it must tell the user what to do, such as "Update the plug-in to 1.40 or later."`)
	case len(r.Message) > maxClientMessage:
		p.add(path+".message", "has %d bytes; it must be at most %d", len(r.Message), maxClientMessage)
	case !isVisibleLine(r.Message):
		p.add(path+".message", "must be one line of visible text in UTF-8, without a space at its ends")
	case r.Action == ActionWarn && !isASCII(r.Message):
		p.add(path+".message", "must be ASCII for Warn: it goes into a header, of which clients read nothing else alike")
	}
}

func isVisibleLine(text string) bool {
	return utf8.ValidString(text) && strings.TrimSpace(text) == text &&
		!strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) })
}

func isASCII(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r > unicode.MaxASCII })
}
