package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/textproto"
	"os"
	"slices"
	"strings"

	"github.com/ghostline-dev/ghostline/controllers/routefile"
	"github.com/ghostline-dev/ghostline/proxy"
	"github.com/ghostline-dev/ghostline/proxy/config"
	"github.com/spf13/cobra"
	"golang.org/x/net/http/httpguts"
	"sigs.k8s.io/yaml"
)

const (
	outputText = "text"
	outputJSON = "json"
)

type explainOptions struct {
	routeOptions
	sys       *system
	path      string
	headers   []string
	subject   string
	requestID string
	output    string
}

func newExplain(sys *system) *cobra.Command {
	o := &explainOptions{sys: sys}
	cmd := &cobra.Command{
		Use:   "explain -f CONFIG REQUEST.json",
		Short: "Show what a proxy would do with a request, without sending it",
		Long: `Explain says what a proxy with this config would do with a completion request: which
rule about clients it meets, which variant and units would serve it, which mutations
change it, and what the first unit would be sent. It is the proxy's own code that
says so; but nothing is asked of anybody, and no credential, key or certificate that
the config names is read.

CONFIG may be a CompletionRoute too, of which --region says the region: it is compiled
as ` + "`ghostline compile`" + ` does.

REQUEST.json is the body of the request; - reads it from the standard input. What
depends on the user depends on --subject, the sub of the user's token.

It is explained for a proxy whose units are all well and have room, and a user within
all limits. The exit status is 0 if the request would be sent to a unit, else 1.`,
		Example: `  ghostline explain -f proxy.yaml request.json
  ghostline explain -f route.yaml --region westeurope request.json
  ghostline explain -f proxy.yaml --header 'Editor-Plugin-Version: copilot.vim/1.39.0' --subject user-1234 request.json
  echo '{"prompt":"func main() {"}' |
    ghostline explain -f proxy.yaml --path /v1/engines/copilot-codex/completions --output json -`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usageError{fmt.Errorf("explain takes one request such as request.json, not %d", len(args))}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args[0]) },
	}
	flags := cmd.Flags()
	flags.StringArrayVarP(&o.files, "file", "f", nil, "the proxy's config `file`, or a CompletionRoute, which may be in several")
	o.addRegionFlag(cmd)
	flags.StringVar(&o.path, "path", "/v1/completions", "`path` of the request")
	flags.StringArrayVar(&o.headers, "header", nil, "a header `field` of the request, such as 'Editor-Version: vscode/1.99.0'; may be given several times")
	flags.StringVar(&o.subject, "subject", "", "the user, as the token's sub `names` them")
	flags.StringVar(&o.requestID, "request-id", "", "the request's X-Request-Id, which draws the variant where a model is split by Request")
	flags.StringVar(&o.output, "output", outputText, "text or json")
	return cmd
}

func (o *explainOptions) run(ctx context.Context, request string) error {
	switch {
	case len(o.files) == 0:
		return usageError{errors.New("no config: set --file")}
	case o.output != outputText && o.output != outputJSON:
		return usageError{fmt.Errorf("--output is %q, want text or json", o.output)}
	}
	header, err := o.header()
	if err != nil {
		return err
	}
	cfg, err := o.readConfig(ctx)
	if err != nil {
		return err
	}
	body, err := o.body(request, cfg.Limits.MaxBodyBytes)
	if err != nil {
		return err
	}
	answer, err := proxy.Explain(proxy.Question{Config: cfg, Path: o.path, Header: header, Body: body, Subject: o.subject})
	if err != nil {
		return err
	}
	if err := o.print(answer); err != nil {
		return err
	}
	if r := answer.Refusal; r != nil {
		return fmt.Errorf("the request would be answered with status %d: %s", r.Status, r.Message)
	}
	return nil
}

// header are the request's headers as a server would have them.
func (o *explainOptions) header() (textproto.MIMEHeader, error) {
	header := textproto.MIMEHeader{}
	for _, field := range o.headers {
		name, value, ok := strings.Cut(field, ":")
		value = strings.TrimSpace(value)
		if !ok || !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
			// It may hold a token, so it is not repeated.
			return nil, usageError{errors.New("a --header is no header field; it must be such as 'Editor-Version: vscode/1.99.0'")}
		}
		header.Add(name, value)
	}
	if o.requestID != "" {
		header.Set("X-Request-Id", o.requestID)
	}
	return header, nil
}

// readConfig reads a proxy's config, strictly, or compiles a route.
func (o *explainOptions) readConfig(ctx context.Context) (*config.Config, error) {
	files, err := readFiles(o.files)
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(files, func(f routefile.File) bool { return routefile.HasRoute(f.Data) }) {
		return o.compileConfig(ctx, files)
	}
	switch {
	case len(files) > 1:
		return nil, usageError{errors.New("there is no CompletionRoute in the files; of a proxy's config --file takes one")}
	case o.region != "":
		return nil, usageError{errors.New("--region goes with a CompletionRoute; a proxy's config is of one region")}
	}
	var object struct {
		Kind string `json:"kind"`
	}
	// What is no YAML at all, Decode says better.
	if yaml.Unmarshal(files[0].Data, &object) == nil && object.Kind != "" {
		return nil, fmt.Errorf("%s: it is a %s; explain reads a CompletionRoute, or a proxy's config as docs/configuration.md has it", files[0].Name, object.Kind)
	}
	cfg, err := config.Decode(files[0].Data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", files[0].Name, err)
	}
	return cfg, nil
}

// compileConfig compiles a route, and says what is left out of it.
func (o *explainOptions) compileConfig(ctx context.Context, files []routefile.File) (*config.Config, error) {
	c, err := o.compile(ctx, files)
	if err != nil {
		return nil, err
	}
	if err := c.noteProblems(o.sys.stderr); err != nil {
		return nil, err
	}
	return config.Decode(c.Data) // with its defaults
}

// body reads the request, and one byte more than a proxy would, so that it says
// that there is too much.
func (o *explainOptions) body(request string, most int64) ([]byte, error) {
	from := o.sys.stdin
	if request != "-" {
		file, err := os.Open(request)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		from = file
	}
	return io.ReadAll(io.LimitReader(from, most+1))
}

func (o *explainOptions) print(e *proxy.Explanation) error {
	var out bytes.Buffer
	if o.output == outputJSON {
		encoder := json.NewEncoder(&out)
		encoder.SetEscapeHTML(false)
		encoder.SetIndent("", "  ")
		if err := encoder.Encode(e); err != nil {
			return err
		}
	} else {
		writeExplanation(&out, e)
	}
	_, err := out.WriteTo(o.sys.stdout)
	return err
}

// writeExplanation writes one line for each thing that was found out, and what
// would be sent behind them.
func writeExplanation(out *bytes.Buffer, e *proxy.Explanation) {
	line := func(what, format string, args ...any) {
		fmt.Fprintf(out, "%-13s%s\n", what, fmt.Sprintf(format, args...))
	}
	line("request id", "%s", e.RequestID)
	line("subject", "%s", orNone(e.Subject))
	for _, c := range e.Clients {
		line("client", "%s %s", c.Name, c.Version)
	}
	if e.ClientRule != nil {
		line("client rule", "%s", describeRule(e.ClientRule))
	}
	if e.DryRun != nil {
		line("dry run", "%s", describeRule(e.DryRun))
	}
	if e.Model != "" {
		line("model", "%s", e.Model)
	}
	if e.Variant != "" {
		line("variant", "%s", e.Variant)
	}
	for i, group := range e.Units {
		line(fmt.Sprintf("unit %d", i+1), "%s", describeUnits(group, e.Variant))
		for _, name := range group.Names {
			if problem := group.Problems[name]; problem != "" {
				line("", "%s is passed over: %s", name, problem)
			}
		}
	}
	for _, m := range e.Mutations {
		line("mutation", "%s: %s", m.Name, describeMutation(m))
	}
	if e.Refusal != nil {
		line("answer", "status %d: %s", e.Refusal.Status, e.Refusal.Message)
	}
	if s := e.Sent; s != nil {
		fmt.Fprintf(out, "\nTo %s:\n\nPOST %s\n", s.Unit, s.URL)
		for _, h := range s.Headers {
			fmt.Fprintf(out, "%s: %s\n", h.Name, h.Value)
		}
		fmt.Fprintf(out, "\n%s\n", s.Body)
	}
}

func describeUnits(group proxy.ExplainedUnits, variant string) string {
	text := strings.Join(group.Names, " or ")
	if len(group.Names) > 1 {
		text += ", whichever is less loaded"
	}
	text += fmt.Sprintf(" (region %s, priority %d", group.Region, group.Priority)
	if group.Variant != variant {
		text += ", of the fallback " + group.Variant
	}
	return text + ")"
}

func describeMutation(m proxy.ExplainedMutation) string {
	text := strings.ReplaceAll(m.Result, "_", " ")
	if m.Reason != "" {
		text += ", since " + m.Reason
	}
	return text
}

func orNone(text string) string {
	if text == "" {
		return "(none; the variant and the shares of mutations depend on it)"
	}
	return text
}

func describeRule(r *proxy.ExplainedRule) string {
	text := fmt.Sprintf("clients[%d], for %s", r.Index, r.Match.Name)
	if r.Match.Versions != "" {
		text += " " + r.Match.Versions
	}
	if text += ": " + r.Action; r.Message != "" {
		text += fmt.Sprintf(" %q", r.Message)
	}
	return text
}
