package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/ghostline-dev/ghostline/tokenissuer/entitlement"
	"github.com/ghostline-dev/ghostline/tokenissuer/identity"
	"github.com/spf13/cobra"
)

type entitlementsOptions struct {
	sys      *system
	file     string
	provider string
	who      identity.Identity
	claims   []string
	output   string
}

func newEntitlements(sys *system) *cobra.Command {
	o := &entitlementsOptions{sys: sys}
	cmd := &cobra.Command{
		Use:   "entitlements -f RULES",
		Short: "Show what the issuer's rules make of an identity",
		Long: `Entitlements says whether somebody would get a token by these rules, what of, and
what each rule had to do with it. It is the issuer's own code that says so, but nothing
is asked of anybody: who they are is what the flags say.

An issuer's audit lines tell the provider and the subject of each exchange. A rule that
allows models allows only those that the provider allows too; here, that is all of them.

The exit status is 0 if the identity is allowed, else 1.`,
		Example: `  ghostline entitlements -f entitlements.yaml --provider github --subject github:583231 --team acme/leads
  ghostline entitlements -f entitlements.yaml --provider corp --claim department=eng --claim region=eu -o json`,
		Args:              noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(*cobra.Command, []string) error { return o.run() },
	}
	flags := cmd.Flags()
	flags.StringVarP(&o.file, "file", "f", "", "the `file` of rules, which the issuer's config names as entitlements.file")
	flags.StringVar(&o.provider, "provider", "", "the `name` of the identity provider that knows them")
	flags.StringVar(&o.who.Subject, "subject", "", "the user, as audit lines and the token's sub `name` them")
	flags.StringArrayVar(&o.who.Organizations, "organization", nil, "an organisation that they are in, by `name`; may be given several times")
	flags.StringArrayVar(&o.who.Teams, "team", nil, "a `team` that they are in, as organisation/team; may be given several times")
	flags.StringArrayVar(&o.claims, "claim", nil, "what else the provider says of them, as `name=value`; may be given several times")
	flags.StringVarP(&o.output, "output", "o", outputText, "text or json")
	return cmd
}

func (o *entitlementsOptions) run() error {
	switch {
	case o.file == "":
		return usageError{errors.New("no rules: set --file")}
	case o.output != outputText && o.output != outputJSON:
		return usageError{fmt.Errorf("--output is %q, want text or json", o.output)}
	}
	o.who.Claims = map[string][]string{}
	for _, claim := range o.claims {
		name, value, ok := strings.Cut(claim, "=")
		if !ok || name == "" {
			return usageError{fmt.Errorf("--claim is %q, want name=value", claim)}
		}
		o.who.Claims[name] = append(o.who.Claims[name], value)
	}
	policy, err := entitlement.Load(o.file)
	if err != nil {
		return err
	}
	e := policy.Explain(o.provider, o.who)
	var out bytes.Buffer
	write := writeEntitlements
	if o.output == outputJSON {
		write = writeEntitlementsJSON
	}
	if err := write(&out, e); err != nil {
		return err
	}
	if _, err := out.WriteTo(o.sys.stdout); err != nil {
		return err
	}
	if !e.Allowed {
		return fmt.Errorf("the identity gets no token: %s", e.Message)
	}
	return nil
}

func writeEntitlementsJSON(out *bytes.Buffer, e entitlement.Explanation) error {
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(e)
}

// writeEntitlements writes the decision, and a line for each rule behind it.
func writeEntitlements(out *bytes.Buffer, e entitlement.Explanation) error {
	line := func(what, text string) { fmt.Fprintf(out, "%-13s%s\n", what, text) }
	otherwise := func(text, otherwise string) string {
		if text == "" {
			return otherwise
		}
		return text
	}
	if e.Allowed {
		line("allowed", "by "+e.Rule)
		line("models", otherwise(strings.Join(e.Models, ", "), "the provider's"))
		line("tier", otherwise(e.Tier, "the provider's"))
		line("token life", otherwise(e.TokenLife, "the issuer's"))
	} else {
		line("denied", "by "+otherwise(e.Rule, "no rule")+": "+e.Message)
	}
	out.WriteByte('\n')
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, r := range e.Rules {
		what := "does not match: " + r.Why
		switch {
		case r.Matches && r.Why == "":
			what = "decides"
		case r.Matches:
			what = "matches, but " + r.Why
		}
		fmt.Fprintf(table, "%s\t%s\t%s\n", r.Name, r.Effect, what)
	}
	return table.Flush()
}
