package config

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/ghostline-dev/ghostline/internal/loopback"
)

// Bounds of the lists; they are the CompletionRoute's.
const (
	maxModels   = 16
	maxVariants = 8
	maxAliases  = 16
	maxMirrors  = 8
	maxUnits    = 16 * 32
	maxWeight   = 1_000_000
	maxTimeout  = Duration(10 * time.Minute)
	maxBody     = 64 << 20
	maxCapacity = 1_000_000
	maxSessions = 1000

	minProbeInterval = Duration(time.Second)
	maxProbePrompt   = 4 << 10
	maxProbeTokens   = 64
	maxTrustedEdges  = 64
)

var namePattern = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$`)

func (p *problems) add(path, format string, args ...any) {
	*p = append(*p, &Problem{path, fmt.Sprintf(format, args...)})
}

func (p *problems) name(path, value string) {
	if !namePattern.MatchString(value) {
		p.add(path, "%q is no name; it must be 1 to 63 letters, digits, '.', '_' or '-', and begin and end with a letter or digit", value)
	}
}

func (p *problems) oneOf(path, value string, allowed ...string) {
	if !slices.Contains(allowed, value) {
		p.add(path, "%q is not known; it must be one of %s", value, strings.Join(allowed, ", "))
	}
}

func (p *problems) count(path string, n, most int) {
	if n < 1 || n > most {
		p.add(path, "has %d entries; it must have 1 to %d", n, most)
	}
}

// check returns everything that is wrong with c, whose defaults are set, one
// line a problem, or nil. It changes nothing.
func (c *Config) check() error {
	p := new(problems)
	for i, feature := range c.Requires {
		if !slices.Contains(Features(), feature) {
			p.add(fmt.Sprintf("requires[%d]", i), "this proxy does not have the feature %q; update the proxy, which has %s",
				feature, strings.Join(Features(), ", "))
		}
	}
	p.name("region", c.Region)
	for i, region := range c.Failover {
		path := fmt.Sprintf("failover[%d]", i)
		p.name(path, region)
		if region == c.Region || slices.Contains(c.Failover[:i], region) {
			p.add(path, "%q is the config's own region or stands there already; failover must name other regions, each once", region)
		}
	}
	c.Tokens.check(p)
	c.checkModels(p)
	c.checkUnits(p)
	c.Limits.check(p)
	c.Timeouts.check(p)
	c.Objectives.check(p)
	c.HealthProbe.check(p)
	c.checkTrustedEdges(p)
	c.checkClients(p)
	c.checkMutations(p)
	return errors.Join(*p...)
}

func (t *Tokens) check(p *problems) {
	if t.Issuer == "" {
		p.add("tokens.issuer", "is missing; it must be what the claim iss holds, such as https://tokens.example.com")
	}
	if t.Audience == "" {
		p.add("tokens.audience", "is missing; it must be what the claim aud holds, such as completions.example.com")
	}
	switch {
	case (t.KeySet.URL == "") == (t.KeySet.File == ""):
		p.add("tokens.keySet", "must have exactly one of url and file")
	case t.KeySet.URL != "":
		if scheme, host := checkURL(p, "tokens.keySet.url", t.KeySet.URL); scheme == "http" && !loopback.Is(host) {
			p.add("tokens.keySet.url", "is http; it must be https except on loopback, since who changes the keys on their way can make tokens")
		}
	case t.KeySet.CAFile != "":
		p.add("tokens.keySet.caFile", "goes only with url")
	}
	if t.DeniedSubjects != nil && t.DeniedSubjects.File == "" {
		p.add("tokens.deniedSubjects.file", "is missing; it must name a file with one subject a line")
	}
}

// checkUnits checks what no unit can be left out for.
func (c *Config) checkUnits(p *problems) {
	p.count("units", len(c.Units), maxUnits)
	seen := map[string]bool{}
	for i, unit := range c.Units {
		path := fmt.Sprintf("units[%d].name", i)
		p.name(path, unit.Name)
		if seen[unit.Name] {
			p.add(path, "%q is already the name of a unit", unit.Name)
		}
		seen[unit.Name] = true
	}
}

// CheckUnit returns what is wrong with a unit apart from its name, one line a
// problem, or nil. A proxy leaves such a unit out and serves the rest: it may be
// of a kind that only a newer proxy knows.
func (c *Config) CheckUnit(i int) error {
	p, unit, path := new(problems), &c.Units[i], fmt.Sprintf("units[%d]", i)
	if unit.Region != c.Region && !slices.Contains(c.Failover, unit.Region) {
		p.add(path+".region", "%q is neither the region %q nor in failover", unit.Region, c.Region)
	}
	if !c.hasVariant(unit.Serves) {
		p.add(path+".serves", "%q names no variant; it must be MODEL/VARIANT of the models above", unit.Serves)
	}
	unit.check(p, path)
	return errors.Join(*p...)
}

// badUnits returns the problems of the units that have some, and whether those
// are all units.
func (c *Config) badUnits() (errs []error, all bool) {
	for i := range c.Units {
		if err := c.CheckUnit(i); err != nil {
			errs = append(errs, err)
		}
	}
	return errs, len(errs) == len(c.Units)
}

// hasVariant says whether there is a variant of that name, MODEL/VARIANT.
func (c *Config) hasVariant(name string) bool {
	for _, m := range c.Models {
		for _, v := range m.Variants {
			if m.Name+"/"+v.Name == name {
				return true
			}
		}
	}
	return false
}

func (u *Unit) check(p *problems, path string) {
	p.oneOf(path+".protocol", u.Protocol, ProtocolAuto, ProtocolHTTP2, ProtocolH2C, ProtocolHTTP1)
	scheme, _ := checkURL(p, path+".url", u.URL)
	urlPath := ""
	if target, err := url.Parse(u.URL); err == nil && scheme != "" {
		urlPath = cmp.Or(target.Path, "/")
	}
	u.checkDialect(p, path, urlPath)
	switch {
	case u.Protocol == ProtocolHTTP2 && scheme == "http":
		p.add(path+".protocol", "HTTP2 needs an https URL; for HTTP/2 in the clear use H2C")
	case u.Protocol == ProtocolH2C && scheme == "https":
		p.add(path+".protocol", "H2C needs an http URL; for HTTP/2 over TLS use HTTP2 or Auto")
	}
	if u.TLS != nil && scheme == "http" {
		p.add(path+".tls", "goes only with an https URL")
	}
	if u.Credential != "" && (strings.ContainsAny(u.Credential, `/\`) || strings.HasPrefix(u.Credential, ".")) {
		p.add(path+".credential", "%q is no entry of a credentials directory; it must be a file's name without a path", u.Credential)
	}
	if u.Capacity.InFlight < 0 || u.Capacity.InFlight > maxCapacity {
		p.add(path+".capacity.inFlight", "is %d; it must be above 0 and at most %d, or 0 for no limit", u.Capacity.InFlight, maxCapacity)
	}
	if u.Capacity.RequestsPerSecond < 0 || u.Capacity.RequestsPerSecond > maxCapacity {
		p.add(path+".capacity.requestsPerSecond", "is %g; it must be above 0 and at most %d, or 0 for no limit", u.Capacity.RequestsPerSecond, maxCapacity)
	}
}

// checkURL returns the scheme and the host of an URL that is right.
func checkURL(p *problems, path, text string) (scheme, host string) {
	u, err := url.Parse(text)
	switch {
	case text == "":
		p.add(path, "is missing; it must be an http or https URL")
	case err != nil, u.Scheme != "http" && u.Scheme != "https", u.Hostname() == "":
		// The text itself may hold a secret, so it is not repeated.
		p.add(path, "is no absolute http or https URL, such as https://host/path")
	case !validPort(u.Port()):
		p.add(path, "has the port %s; it must be 1 to 65535", u.Port())
	case u.User != nil:
		p.add(path, "holds a user name or password; credentials come from the credentials directory")
	case u.Fragment != "":
		p.add(path, "has a fragment (#…), which is never sent; remove it")
	default:
		return u.Scheme, u.Hostname()
	}
	return "", ""
}

// validPort is true for no port too. url.Parse lets nothing but digits through.
func validPort(port string) bool {
	n, err := strconv.ParseUint(port, 10, 16)
	return port == "" || err == nil && n > 0
}

func (l *Limits) check(p *problems) {
	if l.MaxBodyBytes < 1 || l.MaxBodyBytes > maxBody {
		p.add("limits.maxBodyBytes", "is %d; it must be 1 to %d", l.MaxBodyBytes, maxBody)
	}
	if l.InFlight < 1 {
		p.add("limits.inFlight", "is %d; it must be above 0", l.InFlight)
	}
	if l.PerSubject.InFlight < 1 || l.PerSubject.InFlight > maxCapacity {
		p.add("limits.perSubject.inFlight", "is %d; it must be 1 to %d", l.PerSubject.InFlight, maxCapacity)
	}
	if l.PerSubject.Sessions < 1 || l.PerSubject.Sessions > maxSessions {
		p.add("limits.perSubject.sessions", "is %d; it must be 1 to %d", l.PerSubject.Sessions, maxSessions)
	}
	if l.PerSubject.RequestsPerSecond <= 0 {
		p.add("limits.perSubject.requestsPerSecond", "is %g; it must be above 0", l.PerSubject.RequestsPerSecond)
	}
	if l.PerSubject.Burst < 1 {
		p.add("limits.perSubject.burst", "is %d; it must be above 0", l.PerSubject.Burst)
	}
}

func (o *Objectives) check(p *problems) {
	if o.SuccessPercent != 0 {
		p.percent("objectives.successPercent", o.SuccessPercent)
	}
	if o.FirstByte != nil {
		p.percent("objectives.firstByte.percent", o.FirstByte.Percent)
		p.duration("objectives.firstByte.under", o.FirstByte.Under, 0)
	}
}

// percent checks what share of requests is promised. To promise all leaves none
// that may fail, and alerts nothing to count.
func (p *problems) percent(path string, value float64) {
	if value <= 0 || value >= 100 {
		p.add(path, "is %g; it must be above 0 and below 100, such as 99.9", value)
	}
}

func (h *HealthProbe) check(p *problems) {
	if h == nil {
		return
	}
	p.duration("healthProbe.interval", h.Interval, minProbeInterval)
	if len(h.Prompt) > maxProbePrompt || !utf8.ValidString(h.Prompt) {
		p.add("healthProbe.prompt", "has %d bytes; it must be at most %d, in UTF-8", len(h.Prompt), maxProbePrompt)
	}
	if h.MaxTokens < 1 || h.MaxTokens > maxProbeTokens {
		p.add("healthProbe.maxTokens", "is %d; it must be 1 to %d", h.MaxTokens, maxProbeTokens)
	}
}

func (c *Config) checkTrustedEdges(p *problems) {
	if len(c.TrustedEdges) > maxTrustedEdges {
		p.add("trustedEdges", "has %d entries; at most %d are allowed", len(c.TrustedEdges), maxTrustedEdges)
	}
	for i, network := range c.TrustedEdges {
		if prefix, err := netip.ParsePrefix(network); err != nil || prefix.Addr().Is4In6() {
			p.add(fmt.Sprintf("trustedEdges[%d]", i), "%q is no network; it must be an address and a prefix length, such as 10.0.0.0/8", network)
		}
	}
}

// duration checks a duration that must be at least least (not less than any if
// that is 0) and at most maxTimeout.
func (p *problems) duration(path string, d, least Duration) {
	switch {
	case d == notDuration:
		p.add(path, `is no duration; it must be a number with a unit in quotes, such as "5s" or "250ms"`)
	case least == 0 && (d <= 0 || d > maxTimeout):
		p.add(path, "is %s; it must be above 0 and at most %s", time.Duration(d), time.Duration(maxTimeout))
	case d < least || d > maxTimeout:
		p.add(path, "is %s; it must be %s to %s", time.Duration(d), time.Duration(least), time.Duration(maxTimeout))
	}
}

func (t *Timeouts) check(p *problems) {
	for _, field := range []struct {
		name  string
		value Duration
	}{
		{"connect", t.Connect}, {"readBody", t.ReadBody}, {"firstByte", t.FirstByte},
		{"idle", t.Idle}, {"write", t.Write}, {"total", t.Total},
	} {
		p.duration("timeouts."+field.name, field.value, 0)
	}
	if t.Total != notDuration && t.Total < t.FirstByte {
		p.add("timeouts.total", "is %s, less than firstByte, which is %s", time.Duration(t.Total), time.Duration(t.FirstByte))
	}
}
