package proxy

import "github.com/ghostline-dev/ghostline/proxy/config"

// What was done about a client, as ghostline_client_requests_total names it. The
// last two are what a rule would have done, but for its dryRun.
const (
	actionAllow         = "allow"
	actionWarn          = "warn"
	actionUpgrade       = "upgrade"
	actionWarnDryRun    = "warn_dry_run"
	actionUpgradeDryRun = "upgrade_dry_run"
)

// clientRule is a rule of the config about clients.
type clientRule struct {
	clientMatch
	action  string // one of the above
	message string // for the client's user
}

func newClientRule(cfg config.ClientRule) (clientRule, error) {
	match, err := newClientMatch(cfg.Match)
	rule := clientRule{clientMatch: match, action: actionAllow, message: cfg.Message}
	switch {
	case cfg.Action == config.ActionWarn && cfg.DryRun:
		rule.action = actionWarnDryRun
	case cfg.Action == config.ActionWarn:
		rule.action = actionWarn
	case cfg.Action == config.ActionUpgrade && cfg.DryRun:
		rule.action = actionUpgradeDryRun
	case cfg.Action == config.ActionUpgrade:
		rule.action = actionUpgrade
	}
	return rule, err
}

func (r *clientRule) isDryRun() bool {
	return r.action == actionWarnDryRun || r.action == actionUpgradeDryRun
}

// ruling is what a config's rules say of a request, by the clients that it names.
type ruling struct {
	rule   *clientRule // the first that is for one of them and no dry run; nil if there is none
	client clientInfo  // for which it is
	// The first dry run before rule, which would have taken its place.
	dryRun       *clientRule
	dryRunClient clientInfo
}

// ruleOn finds the rules for a request of these clients, the most telling first.
func (s *snapshot) ruleOn(clients []clientInfo) ruling {
	var found ruling
	for i := range s.clientRules {
		rule := &s.clientRules[i]
		client, ok := rule.find(clients)
		switch {
		case !ok:
		case !rule.isDryRun():
			found.rule, found.client = rule, client
			return found
		case found.dryRun == nil:
			found.dryRun, found.dryRunClient = rule, client
		}
	}
	return found
}

// followClientRules does and counts what the rules say of the request. A client
// of which they say nothing is served, and so is one whose name or version cannot
// be read: that is no reason to refuse a completion.
func (x *exchange) followClientRules() error {
	counters := x.snapshot.clientCounters
	if len(x.snapshot.clientRules) == 0 {
		counters.count(x.client, actionAllow)
		return nil
	}
	found := x.snapshot.ruleOn(x.clients())
	x.rule, x.dryRun = found.rule, found.dryRun
	if found.dryRun != nil {
		counters.count(found.dryRunClient, found.dryRun.action)
	}
	if found.rule == nil {
		counters.count(x.client, actionAllow)
		return nil
	}
	counters.count(found.client, found.rule.action)
	if found.rule.action == actionUpgrade {
		return clientTooOld(found.rule.message)
	}
	return nil
}

// warning is what the client's user is to be told beside the answer; mostly empty.
func (x *exchange) warning() string {
	if x.rule == nil || x.rule.action != actionWarn {
		return ""
	}
	return x.rule.message
}
