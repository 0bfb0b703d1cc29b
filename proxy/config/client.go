package config

// ClientMatch matches programs by what they call themselves.
type ClientMatch struct {
	// Name is the program's, such as copilot.vim; letter case does not count.
	Name string `json:"name"`
	// Versions is a range such as "<1.40.0" or ">=1.2 <2 || 3.x"; empty is any
	// version, unknown ones too. A version that cannot be read is in no range.
	Versions string `json:"versions,omitempty"`
}

// ClientRule says what is done about a client.
type ClientRule struct {
	Match ClientMatch `json:"match"`
	// Action is one of the Action constants.
	Action string `json:"action"`
	// Message is for the client's user: the body of the answer to ActionUpgrade,
	// a header of the answer for ActionWarn.
	Message string `json:"message,omitempty"`
	// DryRun counts what the rule would do, and does not do it.
	DryRun bool `json:"dryRun,omitempty"`
}

// The values of [ClientRule.Action].
const (
	ActionAllow   = "Allow"   // serve it, whatever later rules say
	ActionWarn    = "Warn"    // serve it, with a message in a header
	ActionUpgrade = "Upgrade" // refuse it with status 466
)
