package proxy

import "strings"

const maxClientInfo = 64

// clientInfo is the program that sends the request, as it names itself.
type clientInfo struct{ name, version string }

// clientHeaders are where clients name themselves, the most telling first: the
// plug-in, then the editor that it runs in, then the HTTP library.
var clientHeaders = []string{"Editor-Plugin-Version", "Editor-Version", "User-Agent"}

// identifyClient finds out which program is asking. Whatever it says passes: a
// name or version that cannot be read is no reason to refuse a completion.
func (p *proxy) identifyClient(x *exchange) error {
	for _, header := range clientHeaders {
		if info, ok := parseClient(x.header.Get(header)); ok {
			x.client = info
			return nil
		}
	}
	return nil
}

// parseClient reads the first NAME/VERSION of a header such as
// "copilot/1.300.0" or "OpenAI/Python 1.2.3".
func parseClient(value string) (clientInfo, bool) {
	product, _, _ := strings.Cut(value, " ")
	name, version, ok := strings.Cut(product, "/")
	if !ok || name == "" || len(product) > maxClientInfo {
		return clientInfo{}, false
	}
	for _, c := range []byte(product) {
		if !isWordByte(c) {
			return clientInfo{}, false
		}
	}
	return clientInfo{name: name, version: version}, true
}
