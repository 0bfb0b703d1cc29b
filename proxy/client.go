package proxy

import (
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

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
			break
		}
	}
	p.metrics.clientCounters.count(x.client)
	return nil
}

// parseClient reads the first NAME/VERSION of a header such as "copilot/1.300.0".
// OpenAI's SDKs say "OpenAI/Python 1.2.3", where the language is part of the name.
func parseClient(value string) (clientInfo, bool) {
	product, rest, _ := strings.Cut(value, " ")
	name, version, ok := strings.Cut(product, "/")
	if !ok || name == "" || len(product) > maxClientInfo || !isWord(product) {
		return clientInfo{}, false
	}
	isSDK := name == "OpenAI" || name == "AsyncOpenAI"
	if number, _, _ := strings.Cut(rest, " "); isSDK && startsWithDigit(number) && len(number) <= maxClientInfo && isWord(number) {
		name, version = product, number
	}
	return clientInfo{name: name, version: version}, true
}

func startsWithDigit(text string) bool { return text != "" && '0' <= text[0] && text[0] <= '9' }

// otherLabel stands in metrics for every name and version that is not among
// those which they tell apart.
const otherLabel = "other"

// wellKnown are the clients that metrics tell apart, by the names that they give
// themselves: plug-ins, and the editors and libraries of those that give no other.
var wellKnown = []string{
	"copilot", "copilot-chat", "copilot.vim", "copilot-intellij", "copilot-vs", "copilot-xcode", "copilot-eclipse", "copilot-language-server",
	"GithubCopilot", "GitHubCopilotChat",
	"vscode", jetBrains, "VisualStudio", "Neovim", "Vim", "Emacs", "Xcode", "Eclipse", "Zed",
	"ghostline", "ghostline-cli", "ghostline-go", "ghostline-vscode",
	"OpenAI/Python", "AsyncOpenAI/Python", "OpenAI/JS", "OpenAI/Go", "OpenAI/Java",
	"curl",
}

// jetBrains is what the names of JetBrains' editors begin with, such as JetBrains-IU.
const jetBrains = "JetBrains"

// What was done about a client, as ghostline_client_requests_total names it.
const actionAllow = "allow"

// majorVersions is how many first numbers of versions metrics tell apart, from 0.
const majorVersions = 100

// clientCounters are the counters of ghostline_client_requests_total, each found
// at its first use.
type clientCounters struct {
	vec    *prometheus.CounterVec
	known  map[string]*clientSeries // by name
	others clientSeries
}

// clientSeries are those of one client, by major version; the last is of others.
type clientSeries struct {
	client string
	majors [majorVersions + 1]atomic.Pointer[prometheus.Counter]
}

func newClientCounters(vec *prometheus.CounterVec) *clientCounters {
	c := &clientCounters{vec: vec, known: map[string]*clientSeries{}, others: clientSeries{client: otherLabel}}
	for _, name := range wellKnown {
		c.known[name] = &clientSeries{client: name}
	}
	return c
}

// count counts a request of the client.
func (c *clientCounters) count(client clientInfo) {
	name := client.name
	if strings.HasPrefix(name, jetBrains+"-") {
		name = jetBrains
	}
	series, ok := c.known[name]
	if !ok {
		series = &c.others
	}
	major := majorOf(client.version)
	at := &series.majors[major]
	counter := at.Load()
	if counter == nil {
		label := otherLabel
		if major < majorVersions {
			label = strconv.Itoa(major)
		}
		found := c.vec.WithLabelValues(series.client, label, actionAllow)
		counter = &found
		at.Store(counter)
	}
	(*counter).Inc()
}

// majorOf is the first number of a version such as 1.300.0, or majorVersions if
// it has none below that.
func majorOf(version string) int {
	major, digits := 0, 0
	for digits < len(version) && '0' <= version[digits] && version[digits] <= '9' {
		major = min(10*major+int(version[digits]-'0'), majorVersions)
		digits++
	}
	if digits == 0 || digits < len(version) && version[digits] != '.' && version[digits] != '-' && version[digits] != '+' {
		return majorVersions
	}
	return major
}
