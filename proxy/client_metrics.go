package proxy

import (
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/ghostline-dev/ghostline/internal/clientversion"
	"github.com/prometheus/client_golang/prometheus"
)

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

// majorVersions is how many first numbers of versions metrics tell apart, from 0.
const majorVersions = 100

// clientCounters are the counters of ghostline_client_requests_total under one
// config, each found at its first use.
type clientCounters struct {
	vec    *prometheus.CounterVec
	known  map[string]*clientSeries // by name in small letters
	others clientSeries

	mu     sync.Mutex // held while a series may be made, and while they are taken away
	isGone bool       // another config is in use
}

// clientSeries are those of one client that is served, by major version; the last
// is of others.
type clientSeries struct {
	client string
	majors [majorVersions + 1]atomic.Pointer[prometheus.Counter]
}

// newClientCounters makes counters for the well-known clients and those that the
// rules name.
func newClientCounters(vec *prometheus.CounterVec, rules []clientRule) *clientCounters {
	c := &clientCounters{vec: vec, known: map[string]*clientSeries{}, others: clientSeries{client: otherLabel}}
	for _, name := range wellKnown {
		c.add(name)
	}
	for _, rule := range rules {
		c.add(rule.name)
	}
	return c
}

func (c *clientCounters) add(name string) {
	var key clientKey
	if folded := string(key.fold(name)); c.known[folded] == nil {
		c.known[folded] = &clientSeries{client: name}
	}
}

// clientKey is room for a client's name in small letters.
type clientKey [maxClientInfo]byte

func (k *clientKey) fold(name string) []byte {
	n := copy(k[:], name)
	for i, b := range k[:n] {
		if 'A' <= b && b <= 'Z' {
			k[i] = b + 'a' - 'A'
		}
	}
	return k[:n]
}

func (c *clientCounters) of(name string) *clientSeries {
	var key clientKey
	folded := key.fold(name)
	if series, ok := c.known[string(folded)]; ok {
		return series
	}
	var prefix clientKey
	if editor := prefix.fold(jetBrains); len(folded) > len(editor) && folded[len(editor)] == '-' {
		if series, ok := c.known[string(folded[:len(editor)])]; ok && series.client == jetBrains {
			return series
		}
	}
	return &c.others
}

// count counts a request of the client and what was done about it.
func (c *clientCounters) count(client clientInfo, action string) {
	series, major := c.of(client.name), majorOf(client.number)
	if action != actionAllow {
		c.find(series, major, action).Inc()
		return
	}
	at := &series.majors[major]
	counter := at.Load()
	if counter == nil {
		found := c.find(series, major, action)
		counter = &found
		at.Store(counter)
	}
	(*counter).Inc()
}

// find finds or makes a series. A request that outlives its config must not bring
// back what was taken away.
func (c *clientCounters) find(series *clientSeries, major int, action string) prometheus.Counter {
	label := otherLabel
	if major < majorVersions {
		label = strconv.Itoa(major)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isGone {
		series = &c.others
	}
	return c.vec.WithLabelValues(series.client, label, action)
}

// replace takes away the series of clients that next does not tell apart.
func (c *clientCounters) replace(next *clientCounters) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.isGone = true
	for name, series := range c.known {
		if stays := next.known[name]; stays == nil || stays.client != series.client {
			c.vec.DeletePartialMatch(prometheus.Labels{"client": series.client})
		}
	}
}

// majorOf is the first number of a version such as 1.300.0, or majorVersions if it
// has none below that.
func majorOf(version clientversion.Version) int {
	if major, ok := version.Major(); ok && major < majorVersions {
		return int(major)
	}
	return majorVersions
}
