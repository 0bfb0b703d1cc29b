package proxy

import (
	"strings"

	"github.com/ghostline-dev/ghostline/internal/clientversion"
)

const maxClientInfo = 64

// clientInfo is a program that sends the request, as it names itself.
type clientInfo struct {
	name, version string
	number        clientversion.Version // what version says, if that can be read
}

func newClientInfo(name, version string) clientInfo {
	number, _ := clientversion.Parse(version)
	return clientInfo{name: name, version: version, number: number}
}

// clientHeaders are where programs name themselves, the most telling first: the
// plug-in, the editor that it runs in, the language server that both may start,
// and the HTTP library. One whose program is known has but the version.
var clientHeaders = []struct{ header, program string }{
	{header: "Editor-Plugin-Version"},
	{header: "Editor-Version"},
	{header: "Copilot-Language-Server-Version", program: "copilot-language-server"},
	{header: "User-Agent"},
}

// identifyClient finds out which program is asking, and follows the config's rules
// about it.
func (p *proxy) identifyClient(x *exchange) error {
	for _, from := range clientHeaders {
		if info, ok := parseClient(x.header.Get(from.header), from.program); ok {
			x.client = info
			break
		}
	}
	return x.followClientRules()
}

// clients are all programs that name themselves in the request, the most telling
// first.
func (x *exchange) clients() []clientInfo {
	if x.programs == nil {
		x.programs = make([]clientInfo, 0, len(clientHeaders))
		for _, from := range clientHeaders {
			if info, ok := parseClient(x.header.Get(from.header), from.program); ok {
				x.programs = append(x.programs, info)
			}
		}
	}
	return x.programs
}

// parseClient reads the first NAME/VERSION of a header such as "copilot/1.300.0", or
// the version alone of a program that is known.
// OpenAI's SDKs say "OpenAI/Python 1.2.3", where the language is part of the name.
func parseClient(value, program string) (clientInfo, bool) {
	product, rest, _ := strings.Cut(value, " ")
	if len(product) > maxClientInfo || !isWord(product) {
		return clientInfo{}, false
	}
	name, version, ok := strings.Cut(product, "/")
	switch {
	case !ok && program != "":
		return newClientInfo(program, product), true
	case !ok || name == "":
		return clientInfo{}, false
	}
	isSDK := name == "OpenAI" || name == "AsyncOpenAI"
	if number, _, _ := strings.Cut(rest, " "); isSDK && startsWithDigit(number) && len(number) <= maxClientInfo && isWord(number) {
		name, version = product, number
	}
	return newClientInfo(name, version), true
}

func startsWithDigit(text string) bool { return text != "" && '0' <= text[0] && text[0] <= '9' }
