package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/ghostline-dev/ghostline/internal/load"
	"github.com/spf13/cobra"
)

type loadOptions struct {
	endpoints
	load.Options
	tokens loadTokens
	json   bool
}

func newLoad(sys *system) *cobra.Command {
	o := &loadOptions{endpoints: endpoints{sys: sys}}
	cmd := &cobra.Command{
		Use:   "load",
		Short: "Let many users type at a server, and measure what they feel",
		Long: `Load is a population that types. Each user has one connection and asks for a
completion at a short stop in its typing. About half of the requests are typed
through: reset before the first byte, or mid-stream. In the end load reports how
requests ended, how long first bytes and whole answers took, and every error by its
kind. docs/load.md says how users type and what each figure means.

It runs against any OpenAI-compatible server: --url is a base URL, with or without
/v1, or that of completions itself. Nothing is retried unless --retries asks for it,
and an answer without a finish reason and [DONE] is an error.

For the proxy of ` + envProxy + `, or with --issuer, users get tokens from the issuer,
which are refreshed, as complete does; --oauth-file makes them many subjects, since
a proxy limits each. --key-env and --key-file send a key as it is. With none of
these, no token is sent.

Ctrl-C ends the run early; what was measured is printed. The exit status is 0 if
there was no error, 1 if there was one or the run was interrupted, 2 if the command
line is wrong.`,
		Example: `  ghostline load --users 5 --duration 1m
  ghostline load --users 2000 --ramp 20s --oauth-file logins.txt --json > report.json
  ghostline load --url http://127.0.0.1:8000/v1 --protocol h1 --model qwen --rate 50
  ghostline load --url https://api.example.com --key-env API_KEY --model code --rtt 80ms`,
		Args:              noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, _ []string) error { return o.run(cmd) },
	}
	o.addTargetFlags(cmd)
	o.addPopulationFlags(cmd)
	return cmd
}

// addTargetFlags adds the flags that say who is asked, how and as whom.
func (o *loadOptions) addTargetFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&o.Target.URL, "url", o.sys.getenv(envProxy), "`URL` of the server or of its completions ($"+envProxy+")")
	flags.StringVar((*string)(&o.Target.Protocol), "protocol", string(load.ProtocolAuto),
		"auto (https: by ALPN, http: h2c), h1, h2 or h2c")
	flags.StringVar(&o.Model, "model", defaultModel, "model to ask")
	flags.IntVar(&o.MaxTokens, "max-tokens", load.DefaultMaxTokens, "most tokens to generate")
	flags.IntVar(&o.SuffixBytes, "suffix", 0, "`bytes` of text after the cursor to send along")
	o.addIssuerFlags(cmd)
	o.tokens.addFlags(cmd)
	flags.DurationVar(&o.RTT, "rtt", 0, "round-trip `time` to add, to stand for distance")
	flags.DurationVar(&o.Timeout, "timeout", load.DefaultTimeout, "longest that a request may take, retries included")
	flags.IntVar(&o.Retries, "retries", 0, "`times` to send a request again that got no answer")
}

// addPopulationFlags adds the flags that say who types, how and for how long.
func (o *loadOptions) addPopulationFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.IntVar(&o.Users, "users", load.DefaultUsers, "`number` of users, each with one connection")
	flags.DurationVar(&o.Duration, "duration", load.DefaultDuration, "how long to measure; without a limit if only --requests is given")
	flags.Int64Var(&o.Requests, "requests", 0, "`number` of requests to measure; 0 is no limit")
	flags.DurationVar(&o.Ramp, "ramp", 0, "`time` over which the users arrive")
	flags.DurationVar(&o.Warmup, "warmup", 0, "`time` at the start to leave out of the figures (default: the ramp)")
	flags.Float64Var(&o.Rate, "rate", 0, "requests a second of all users together, whatever comes back; 0: users wait and think")
	flags.Float64Var(&o.Typing.CancelPercent, "cancel-percent", load.DefaultCancelPercent, "`share` of requests that are typed through")
	flags.DurationVar(&o.Typing.Keystroke, "keystroke", load.DefaultKeystroke, "median `gap` between two keystrokes")
	flags.DurationVar(&o.Typing.Debounce, "debounce", load.DefaultDebounce, "`time` after a keystroke at which the editor asks")
	flags.DurationVar(&o.Typing.Think, "think", load.DefaultThink, "median `pause` after an answer that was waited for")
	flags.Uint64Var(&o.Seed, "seed", load.DefaultSeed, "`number` that determines what is typed and when")
	flags.BoolVar(&o.json, "json", false, "print the report as JSON")
}

func (o *loadOptions) run(cmd *cobra.Command) error {
	given := cmd.Flags().Changed
	if o.Target.URL == "" {
		return usageError{errors.New("no server: set --url or " + envProxy)}
	}
	if o.Requests > 0 && !given("duration") {
		o.Duration = 0
	}
	if !given("warmup") {
		o.Warmup = o.Ramp
	}
	roots, err := o.roots()
	if err != nil {
		return err
	}
	o.Target.RootCAs = roots
	o.Plugin = product()
	byIssuer := given("issuer") || o.issuer != "" && o.Target.URL == o.sys.getenv(envProxy)
	sources, err := o.tokens.sources(&o.endpoints, o.Target.URL, byIssuer)
	if err != nil {
		return err
	}
	defer sources.close()
	o.Tokens = sources
	progress := newProgressLine(o.sys.stderr)
	o.Progress, o.ProgressEvery = progress.show, progress.every
	report, err := load.Run(cmd.Context(), o.Options)
	progress.end()
	if err != nil {
		return asUsage(err)
	}
	return errors.Join(o.print(report), verdict(cmd.Context(), report))
}

// asUsage makes a usage error of wrong options.
func asUsage(err error) error {
	if errors.Is(err, load.ErrOptions) {
		return usageError{err}
	}
	return err
}

func (o *loadOptions) print(report *load.Report) error {
	if !o.json {
		return report.Write(o.sys.stdout)
	}
	encoder := json.NewEncoder(o.sys.stdout)
	encoder.SetIndent("", "  ")
	return encoder.Encode(report)
}

// verdict is the error of a run with errors.
func verdict(ctx context.Context, report *load.Report) error {
	switch q := report.Requests; {
	case ctx.Err() != nil:
		return ctx.Err()
	case q.Errors > 0:
		return fmt.Errorf("%d of %d requests ended in an error", q.Errors, q.Sent)
	case q.Sent == 0:
		return errors.New("no request was sent in the time that is measured: give the users more of it")
	}
	return nil
}
