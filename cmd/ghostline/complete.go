package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/ghostline-dev/ghostline/client"
	"github.com/ghostline-dev/ghostline/client/prompt"
	"github.com/spf13/cobra"
)

const (
	defaultModel     = "ghost-code"
	defaultMaxTokens = 64
	maxTextFile      = 16 << 20
)

type completeOptions struct {
	endpoints
	model     string
	maxTokens int
}

func newComplete(sys *system) *cobra.Command {
	o := &completeOptions{endpoints: endpoints{sys: sys}}
	cmd := &cobra.Command{
		Use:   "complete FILE:LINE:COL",
		Short: "Complete at a cursor, streaming the text to the terminal",
		Long: `Complete asks for the text to insert at a place of a file and prints it as it
comes, dimmed at a terminal. The file itself is not changed.

Lines and columns count from 1, columns in bytes, as compilers and grep print
them: column 1 is before the line's first character. Ctrl-C stops the model.`,
		Example: `  ghostline complete main.go:12:5
  ghostline complete --max-tokens 200 src/parser.py:80:1 > suggestion.txt`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usageError{fmt.Errorf("complete takes one place such as main.go:12:5, not %d", len(args))}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args[0]) },
	}
	o.addProxyFlag(cmd)
	o.addIssuerFlags(cmd)
	cmd.Flags().StringVar(&o.model, "model", defaultModel, "model to ask")
	cmd.Flags().IntVar(&o.maxTokens, "max-tokens", defaultMaxTokens, "most tokens to generate")
	return cmd
}

func (o *completeOptions) run(ctx context.Context, location string) error {
	request, err := o.request(location)
	if err != nil {
		return err
	}
	if err := o.needProxy(); err != nil {
		return err
	}
	tokens, err := o.tokens()
	if err != nil {
		return err
	}
	defer tokens.Close()
	roots, err := o.roots()
	if err != nil {
		return err
	}
	c, err := client.New(client.Options{ProxyURL: o.proxy, Tokens: tokens, RootCAs: roots, Plugin: product()})
	if err != nil {
		return err
	}
	defer c.Close()
	return o.stream(ctx, c, request)
}

// request makes the request for the cursor at location.
func (o *completeOptions) request(location string) (client.Request, error) {
	file, at, err := prompt.ParseLocation(location)
	if err != nil {
		return client.Request{}, usageError{err}
	}
	if o.maxTokens < 1 {
		return client.Request{}, usageError{fmt.Errorf("--max-tokens is %d, want at least 1", o.maxTokens)}
	}
	content, err := readText(file)
	if err != nil {
		return client.Request{}, err
	}
	parts, err := prompt.Cut(content, at, prompt.DefaultBudget)
	if err != nil {
		return client.Request{}, fmt.Errorf("%s: %w", file, err)
	}
	return client.Request{Model: o.model, Prompt: parts.Prompt, Suffix: parts.Suffix, MaxTokens: o.maxTokens}, nil
}

// readText reads a file of bounded size.
func readText(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	var content strings.Builder
	n, err := io.Copy(&content, io.LimitReader(f, maxTextFile+1))
	if err != nil {
		return "", err
	}
	if n > maxTextFile {
		return "", fmt.Errorf("%s is larger than %d MiB, the most that is read", name, maxTextFile>>20)
	}
	return content.String(), nil
}

// stream prints the completion as it comes. A failed write ends it, and so the
// model's work, as when the output is piped to head.
func (o *completeOptions) stream(ctx context.Context, c *client.Client, r client.Request) error {
	_, atTerminal := terminal(o.sys.stdout)
	ghost := &ghostText{out: o.sys.stdout, atTerminal: atTerminal}
	for event, err := range c.Complete(ctx, r) {
		if err == nil {
			err = ghost.write(event.Text)
		}
		if err != nil {
			return errors.Join(err, ghost.end())
		}
	}
	return ghost.end()
}
